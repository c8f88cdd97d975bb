// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

func kubernetesRange() Check {
	return Check{
		ID: "CAP-KUBERNETES-RANGE", Waivable: true,
		Doc: "The release states which Kubernetes versions it supports, for the management cluster and for workload clusters. " +
			"Controllers outside their range have been seen to fail at start or to refuse to roll nodes.",
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			ranges := t.Bundle.Release.Spec.Kubernetes
			if ranges == nil {
				return nil
			}
			out := inRange(ranges.Management, w.Management.KubernetesVersion, "the management cluster")
			for i := range w.Clusters {
				c := &w.Clusters[i]
				if c.Version == "" || c.Deleting {
					continue
				}
				out = append(out, inRange(ranges.Workload, c.Version, "cluster "+c.Key())...)
			}
			return out
		},
	}
}

func inRange(r *v1alpha1.VersionRange, have, whose string) []v1alpha1.Finding {
	limits, err := version.ParseRange(r)
	if err != nil {
		return []v1alpha1.Finding{unknown("The release's Kubernetes range can't be read: "+err.Error(), "correct spec.kubernetes in the release")}
	}
	v, err := version.Parse(have)
	if err != nil {
		return []v1alpha1.Finding{unknown(fmt.Sprintf("The Kubernetes version of %s can't be read: %v", whose, err), "look at the cluster's version")}
	}
	if limits.Contains(v) {
		return nil
	}
	return []v1alpha1.Finding{block(
		fmt.Sprintf("Kubernetes %s of %s is outside what the release supports (%s)", have, whose, limits),
		fmt.Sprintf("move %s to a Kubernetes version within %s first, or choose another release", whose, limits),
	)}
}

func releaseEdge() Check {
	return Check{
		ID: "CAP-RELEASE-EDGE", Waivable: true,
		Doc: "A release lists the releases it may be reached from (upgradeFrom). Others have not been tried by its makers, or are known to fail.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			from, to := t.Bundle.Release.Spec.UpgradeFrom, t.Bundle.Release.Spec.Version
			if t.PlatformVersion == "" || t.PlatformVersion == to || len(from) == 0 || slices.Contains(from, t.PlatformVersion) {
				return nil
			}
			return []v1alpha1.Finding{block(
				fmt.Sprintf("Release %s can't be reached from %s, only from %v", to, t.PlatformVersion, from),
				fmt.Sprintf("upgrade to one of %v first", from),
			)}
		},
	}
}

func downgrade() Check {
	return Check{
		ID: "CAP-DOWNGRADE",
		Doc: "Cluster API does not support older controllers on newer objects: fields are lost and versions may be unreadable. " +
			"clusterctl upgrade apply accepts a downgrade without a word.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if c.From == "" {
					continue
				}
				order, err := version.Compare(c.To, c.From)
				switch {
				case err != nil:
					out = append(out, unknown(fmt.Sprintf("The versions of %s can't be compared: %v", c.Name, err), "look at the component's recorded version"))
				case order < 0:
					out = append(out, block(
						fmt.Sprintf("Component %s would go back from %s to %s", c.Name, c.From, c.To),
						fmt.Sprintf("choose a release with %s at %s or later", c.Name, c.From)))
				}
			}
			return out
		},
	}
}

// maxSkippedMinors is the rule of Cluster API for the core and kubeadm providers: at most three minor versions at a time
// (docs/book/src/reference/versions.md; cmd/clusterctl/client/cluster/upgrader.go).
const maxSkippedMinors = 3

func skippedMinors() Check {
	return Check{
		ID: "CAP-SKIPPED-MINORS", Waivable: true,
		Doc: "Cluster API tests upgrades over at most three minor versions. A longer jump, or one to another major version, needs a stop between.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				from, errFrom := version.Parse(c.From)
				to, errTo := version.Parse(c.To)
				if errFrom != nil || errTo != nil || c.Type != v1alpha1.ComponentProvider {
					continue // the check downgrade reports versions that can't be read
				}
				distance, sameMajor := version.MinorDistance(from, to)
				if sameMajor && distance <= maxSkippedMinors {
					continue
				}
				out = append(out, block(
					fmt.Sprintf("Component %s would jump from %s to %s, more than %d minor versions at once", c.Name, c.From, c.To, maxSkippedMinors),
					"upgrade to a release in between first"))
			}
			return out
		},
	}
}

func singleInstance() Check {
	return Check{
		ID:  "CAP-PROVIDER-INSTANCES",
		Doc: "Several instances of one provider in a management cluster share CRDs and webhooks. Cluster API dropped support for it, and an upgrade of one would break the other.",
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if c.Provider == nil {
					continue
				}
				var others []world.Ref
				for _, p := range w.Management.Providers {
					if p.Name == c.Provider.Name && p.Type == c.Provider.Type && p.Namespace != c.Provider.Namespace {
						others = append(others, world.Ref{APIVersion: "clusterctl.cluster.x-k8s.io/v1alpha3", Kind: "Provider", Namespace: p.Namespace, Name: p.ManifestLabel})
					}
				}
				if len(others) > 0 {
					out = append(out, block(
						fmt.Sprintf("Provider %s is also installed as %s, while the release has it in namespace %s", c.Name, others[0], c.Provider.Namespace),
						"remove the other instance with `clusterctl delete`, or give the release its namespace", others...))
				}
			}
			return out
		},
	}
}

func contracts() Check {
	return Check{
		ID: "CAP-CONTRACT", Waivable: true,
		Doc: "Providers talk to Cluster API through a contract version. A provider whose contract the core provider does not know is ignored by it: its clusters stop being reconciled.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			core := coreContract(t)
			if core == "" {
				return nil
			}
			var out []v1alpha1.Finding
			for _, r := range t.Bundle.Components {
				if r.Component.Type != v1alpha1.ComponentProvider || r.Contract == "" || version.ContractsCompatible(core, r.Contract) {
					continue
				}
				out = append(out, block(
					fmt.Sprintf("Component %s %s speaks contract %s, the core provider of the release %s", r.Component.Name, r.Component.Version, r.Contract, core),
					fmt.Sprintf("use a version of %s that speaks %s", r.Component.Name, core)))
			}
			return out
		},
	}
}

func coreContract(t *Target) string {
	for _, r := range t.Bundle.Components {
		if p := r.Component.Provider; p != nil && p.Type == string(clusterctlv1.CoreProviderType) {
			return r.Contract
		}
	}
	return ""
}

func strangers() Check {
	return Check{
		ID:  "CAP-PROVIDER-NOT-IN-RELEASE",
		Doc: "A provider that is installed but not part of the release stays at its version. Whether it works with the new core provider is for its makers to say.",
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, p := range w.Management.Providers {
				known := slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool {
					return c.Provider != nil && c.Provider.Name == p.Name && c.Provider.Type == p.Type
				})
				if known {
					continue
				}
				out = append(out, warn(
					fmt.Sprintf("Provider %s %s is installed but is not part of the release: it stays as it is", p.ManifestLabel, p.Version),
					"make sure that it speaks the new core provider's contract, or add it to the release",
					world.Ref{APIVersion: "clusterctl.cluster.x-k8s.io/v1alpha3", Kind: "Provider", Namespace: p.Namespace, Name: p.ManifestLabel}))
			}
			return out
		},
	}
}
