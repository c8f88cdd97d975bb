// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// providerChecks are about the clusterctl inventory and how providers fit together.
func providerChecks() []Check {
	return []Check{singleInstance(), misnamed(), contracts(), strangers()}
}

func singleInstance() Check {
	return Check{
		ID:    "CAP-PROVIDER-INSTANCES",
		Title: "Each provider is installed once",
		Doc:   "Several instances of one provider in a management cluster share CRDs and webhooks. Cluster API dropped support for it, and an upgrade of one would break the other.",
		Fix:   "Remove the instance that is not used (clusterctl delete), or give the release the namespace of the one that is.",
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			out := instances(w)
			for _, c := range t.Components {
				if c.Provider == nil {
					continue
				}
				var others []world.Ref
				for _, p := range w.Management.Providers {
					if p.Name == c.Provider.Name && p.Type == c.Provider.Type && p.Namespace != c.Provider.Namespace {
						others = append(others, providerRef(p))
					}
				}
				if len(others) == 1 && !slices.ContainsFunc(out, func(f v1alpha1.Finding) bool { return slices.Contains(f.Objects, v1alpha1.ObjectReference(others[0])) }) {
					out = append(out, block(
						fmt.Sprintf("Provider %s is installed as %s, while the release has it in namespace %s", c.Name, others[0], c.Provider.Namespace),
						fmt.Sprintf("give the release its namespace: set namespace: %s in the provider of component %s", others[0].Namespace, c.Name), others...))
				}
			}
			return out
		},
	}
}

// instances are providers that the inventory has more than once. Of core providers there can only be one, whatever its name.
func instances(w *world.World) []v1alpha1.Finding {
	found := map[string][]world.Ref{}
	for _, p := range w.Management.Providers {
		key := p.Type + " " + p.Name
		if p.Type == "CoreProvider" {
			key = p.Type
		}
		found[key] = append(found[key], providerRef(p))
	}
	var out []v1alpha1.Finding
	for _, key := range slices.Sorted(maps.Keys(found)) {
		refs := found[key]
		if len(refs) < 2 {
			continue
		}
		var names, deletions []string
		for _, r := range refs {
			names = append(names, r.String())
			deletions = append(deletions, fmt.Sprintf("kubectl delete provider.clusterctl.cluster.x-k8s.io %s -n %s", r.Name, r.Namespace))
		}
		out = append(out, block(
			fmt.Sprintf("%s is installed %d times: %s", key, len(refs), strings.Join(names, " and ")),
			"keep the one whose controllers run, and delete the record of the other: "+strings.Join(deletions, ", or "), refs...))
	}
	return out
}

func providerRef(p world.Provider) world.Ref {
	return world.Ref{APIVersion: "clusterctl.cluster.x-k8s.io/v1alpha3", Kind: "Provider", Namespace: p.Namespace, Name: p.ManifestLabel}
}

// misnamed finds a provider that would be installed anew and has nearly the name of one that is installed and forgotten.
func misnamed() Check {
	return Check{
		ID: "CAP-PROVIDER-NAME", Waivable: true,
		Title: "No provider is installed anew because of a typing error",
		Doc: "A provider is known by its name and type. One letter wrong in the release, and the installed provider is left where it is while another " +
			"one is installed beside it, with the same CRDs. A release that brings a provider which is not installed, and leaves out an installed one of the " +
			"same type and nearly the same name, is taken for that.",
		Fix:     "Correct the provider's name in the release. If both are meant, accept the finding.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/9875"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if c.Provider == nil || c.From != "" {
					continue
				}
				for _, p := range w.Management.Providers {
					if p.Type != c.Provider.Type || p.Name == c.Provider.Name || inRelease(p, t) || !release.Close(c.Provider.Name, p.Name) {
						continue
					}
					out = append(out, block(
						fmt.Sprintf("Provider %q of component %s is not installed and would be installed anew beside %s; did you mean %q?", c.Provider.Name, c.Name, providerRef(p), p.Name),
						fmt.Sprintf("write provider: {name: %s, type: %s, namespace: %s} into component %s of the release", p.Name, p.Type, p.Namespace, c.Name), providerRef(p)))
				}
			}
			return out
		},
	}
}

func inRelease(p world.Provider, t *Target) bool {
	return slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool {
		return c.Provider != nil && c.Provider.Name == p.Name && c.Provider.Type == p.Type
	})
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
				if inRelease(p, t) {
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
