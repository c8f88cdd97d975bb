// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// providerChecks are about the clusterctl inventory and how providers fit together.
func providerChecks() []Check {
	return []Check{singleInstance(), contracts(), strangers()}
}

func singleInstance() Check {
	return Check{
		ID:    "CAP-PROVIDER-INSTANCES",
		Title: "Each provider is installed once",
		Doc:   "Several instances of one provider in a management cluster share CRDs and webhooks. Cluster API dropped support for it, and an upgrade of one would break the other.",
		Fix:   "Remove the instance that is not used (clusterctl delete), or give the release the namespace of the one that is.",
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

func strangers() Check {
	return Check{
		ID:    "CAP-PROVIDER-NOT-IN-RELEASE",
		Title: "No installed provider is forgotten",
		Doc: "A provider that is installed but not part of the release stays at its version. Whether it speaks a contract of the new core provider is judged by " +
			"CAP-CONTRACT; whether it works with it is for its makers to say.",
		Fix:     "Add the provider to the release, or make sure that it works with the new core provider.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api-operator/issues/570"},
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
