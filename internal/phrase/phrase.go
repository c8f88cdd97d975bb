// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package phrase holds the few turns of phrase that every sentence for people is made with. It knows nothing of what they
// are about.
package phrase

import (
	"fmt"
	"strings"
)

// named is how many names Some tells before it only counts.
const named = 3

// Count says how many: "1 step", "3 steps".
func Count[N ~int | ~int32 | ~int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Some names the first three and counts the rest: "a, b, c and 2 more".
func Some(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}

// Named puts the noun before all names: "variable A", "variables A, B".
func Named(noun string, names []string) string {
	if len(names) != 1 {
		noun += "s"
	}
	return noun + " " + strings.Join(names, ", ")
}
