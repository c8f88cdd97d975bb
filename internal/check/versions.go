// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// versionChecks are about what may follow what.
func versionChecks() []Check {
	return []Check{kubernetesRange(), releaseEdge(), downgrade(), skippedMinors()}
}

func kubernetesRange() Check {
	return Check{
		ID: "CAP-KUBERNETES-RANGE", Waivable: true,
		Title: "The release supports the Kubernetes versions that are there",
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
		Title: "This release may follow the one that is installed",
		Doc:   "A release lists the releases it may be reached from (upgradeFrom). Others have not been tried by its makers, or are known to fail.",
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
		ID:    "CAP-DOWNGRADE",
		Title: "Nothing goes backwards",
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
		Title: "No provider skips more minor versions than Cluster API supports",
		Doc:   "Cluster API tests upgrades over at most three minor versions. A longer jump, or one to another major version, needs a stop between.",
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
