// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

func dependents() Check {
	return Check{
		ID: "CAP-DEPENDENT-MAJOR", Waivable: true,
		Title: "No object depends on another major version than the one that comes",
		Doc: "Templates for clusters, services and providers are often made for one major version of a component. A release lists such kinds under spec.dependents, " +
			"with the field that holds the version. Each live object whose field says another major version than the target's is named.",
		Fix:     "Move the objects to ones that are made for the new major version first.",
		Sources: []string{"https://github.com/k0rdent/kcm/pull/950"},
		Needs:   []world.Topic{world.TopicDependents},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, found := range w.Survey.Dependents {
				if found.Ask >= len(t.Bundle.Release.Spec.Dependents) {
					continue
				}
				d := t.Bundle.Release.Spec.Dependents[found.Ask]
				target := ""
				if i := slices.IndexFunc(t.Components, func(c v1alpha1.PlannedComponent) bool { return c.Name == d.Component }); i >= 0 {
					target = t.Components[i].To
				}
				major, ok := majorIn(found.Value, d.Pattern)
				switch {
				case target == "":
				case !ok:
					out = append(out, warn(
						fmt.Sprintf("%s names no version of %s: its %s is %q", found.Ref, d.Component, d.FieldPath, found.Value),
						"see whether it works with "+d.Component+" "+target+"; a pattern in the release's spec.dependents says where the version is", found.Ref))
				case major != majorOf(target):
					out = append(out, block(
						fmt.Sprintf("%s depends on %s %s: its %s is %q, and the release has %s", found.Ref, d.Component, major, d.FieldPath, found.Value, target),
						fmt.Sprintf("move it to one that is made for %s %s first", d.Component, majorOf(target)), found.Ref))
				}
			}
			return out
		},
	}
}

// majorIn returns the major version that a field's value names, as "v2".
func majorIn(value, pattern string) (string, bool) {
	if pattern != "" {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return "", false
		}
		groups := re.FindStringSubmatch(value)
		if len(groups) < 2 {
			return "", false
		}
		value = groups[1]
	}
	groups := regexp.MustCompile(`^v?([0-9]+)(?:$|[.+_-])`).FindStringSubmatch(value)
	if groups == nil {
		return "", false
	}
	n, err := strconv.Atoi(groups[1])
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("v%d", n), true
}
