// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// Ordering is the order in which components can be brought to their target. It follows the needs and Cluster API's order of
// provider types, and does not depend on the order in which the release lists its components.
type Ordering struct {
	// Levels hold the names of components that don't need each other; each needs something of the level before.
	Levels [][]string
	// Needs are what each component needs: what the release says, then what its type implies.
	Needs map[string][]string
}

// Names returns all components, each after everything it needs.
func (o Ordering) Names() []string { return slices.Concat(o.Levels...) }

// Order sorts components by their needs. Within a level manifests come first, then providers in clusterctl's order of
// types, then by name.
//
// A provider also needs what its type implies: cert-manager, then the core provider, bootstrap, control plane and at last
// all other providers. One that is started before the core provider it was made for can't start, and its conversion webhook
// then fails every list of its kinds. What the release itself says comes first: where a need says the opposite, it counts.
func Order(components []v1alpha1.Component) (Ordering, error) {
	rest := slices.Clone(components)
	slices.SortStableFunc(rest, func(a, b v1alpha1.Component) int {
		return cmp.Or(cmp.Compare(typeRank(a), typeRank(b)), cmp.Compare(a.Name, b.Name))
	})
	order := Ordering{Needs: withImplied(rest)}
	done := map[string]bool{}
	for len(rest) > 0 {
		var level []string
		var later []v1alpha1.Component
		for _, c := range rest {
			if slices.ContainsFunc(order.Needs[c.Name], func(need string) bool { return !done[need] }) {
				later = append(later, c)
				continue
			}
			level = append(level, c.Name)
		}
		if len(level) == 0 {
			return Ordering{}, unorderable(later)
		}
		for _, name := range level {
			done[name] = true
		}
		order.Levels = append(order.Levels, level)
		rest = later
	}
	return order, nil
}

// withImplied returns the needs of all components, those that their types imply included.
func withImplied(components []v1alpha1.Component) map[string][]string {
	needs := map[string][]string{}
	for _, c := range components {
		needs[c.Name] = slices.Clone(c.Needs)
	}
	for _, c := range components {
		if c.Provider == nil {
			continue
		}
		for _, earlier := range components {
			if stage(earlier) < stage(c) && !slices.Contains(needs[c.Name], earlier.Name) && !leads(needs, earlier.Name, c.Name) {
				needs[c.Name] = append(needs[c.Name], earlier.Name)
			}
		}
	}
	return needs
}

// lastStage is the stage of components that nothing is implied to need.
const lastStage = 4

// stage is when a component has its turn.
func stage(c v1alpha1.Component) int {
	if c.Provider == nil {
		if c.Name == CertManager {
			return 0
		}
		return lastStage
	}
	switch clusterctlv1.ProviderType(c.Provider.Type) {
	case clusterctlv1.CoreProviderType:
		return 1
	case clusterctlv1.BootstrapProviderType:
		return 2
	case clusterctlv1.ControlPlaneProviderType:
		return 3
	case clusterctlv1.InfrastructureProviderType, clusterctlv1.IPAMProviderType, clusterctlv1.RuntimeExtensionProviderType,
		clusterctlv1.AddonProviderType, clusterctlv1.ProviderTypeUnknown:
	}
	return lastStage
}

// leads tells whether one component needs another, directly or through others.
func leads(needs map[string][]string, from, to string) bool {
	seen := map[string]bool{}
	var visit func(name string) bool
	visit = func(name string) bool {
		if name == to {
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		return slices.ContainsFunc(needs[name], visit)
	}
	return visit(from)
}

// unorderable says why no component of the rest can be next.
func unorderable(rest []v1alpha1.Component) error {
	if cycle := findCycle(rest); cycle != nil {
		return problem.Usage(ReasonNeedCycle, "", "components need each other in a circle: %s", strings.Join(cycle, " -> "))
	}
	names := make([]string, 0, len(rest))
	for _, c := range rest {
		names = append(names, c.Name)
	}
	return problem.Usage(ReasonUnknownNeed, "", "components need others that are not in the release: %s", strings.Join(names, ", "))
}

func typeRank(c v1alpha1.Component) int {
	if c.Provider == nil {
		return 0
	}
	return 1 + slices.Index(providerTypes(), c.Provider.Type)
}

// findCycle returns the first circle of needs that it comes to in the order of the list, its first name repeated at the
// end, or nil. Needs that do not exist are passed over.
func findCycle(components []v1alpha1.Component) []string {
	needs := map[string][]string{}
	for _, c := range components {
		if _, ok := needs[c.Name]; !ok {
			needs[c.Name] = c.Needs
		}
	}
	finished := map[string]bool{}
	var path []string
	var visit func(name string) []string
	visit = func(name string) []string {
		if i := slices.Index(path, name); i >= 0 {
			return append(slices.Clone(path[i:]), name)
		}
		if finished[name] {
			return nil
		}
		path = append(path, name)
		for _, need := range needs[name] {
			if cycle := visit(need); cycle != nil {
				return cycle
			}
		}
		path = path[:len(path)-1]
		finished[name] = true
		return nil
	}
	for _, c := range components {
		if cycle := visit(c.Name); cycle != nil {
			return cycle
		}
	}
	return nil
}
