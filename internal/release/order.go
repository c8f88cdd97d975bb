// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// Ordering is the order in which components can be brought to their target. It follows the needs alone and does not
// depend on the order in which the release lists its components.
type Ordering struct {
	// Levels hold the names of components that don't need each other; each needs something of the level before.
	Levels [][]string
}

// Names returns all components, each after everything it needs.
func (o Ordering) Names() []string { return slices.Concat(o.Levels...) }

// Order sorts components by their needs. Within a level manifests come first, then providers in clusterctl's order of
// types, then by name.
func Order(components []v1alpha1.Component) (Ordering, error) {
	var order Ordering
	done := map[string]bool{}
	rest := slices.Clone(components)
	slices.SortStableFunc(rest, func(a, b v1alpha1.Component) int {
		return cmp.Or(cmp.Compare(typeRank(a), typeRank(b)), cmp.Compare(a.Name, b.Name))
	})
	for len(rest) > 0 {
		var level []string
		var later []v1alpha1.Component
		for _, c := range rest {
			if slices.ContainsFunc(c.Needs, func(need string) bool { return !done[need] }) {
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
