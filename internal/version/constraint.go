// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Constraint is a list of bounds as people write them: ">=1.12.8 <1.13 || >=1.13.2". Blanks and commas mean "and". A
// bound may leave out the patch number, and has a leading v or not.
type Constraint struct {
	text  string
	value *semver.Constraints
}

// ParseConstraint reads a constraint.
func ParseConstraint(s string) (Constraint, error) {
	value, err := semver.NewConstraint(s)
	if err != nil || strings.TrimSpace(s) == "" {
		return Constraint{}, fmt.Errorf("%q is not a list of bounds such as \">=1.12.8 <1.13 || >=1.13.2\"", s)
	}
	// A pre-release is judged by its precedence like any other version; left alone, the library would refuse all of them.
	value.IncludePrerelease = true
	return Constraint{text: s, value: value}, nil
}

// String returns the constraint as it was written.
func (c Constraint) String() string { return c.text }

// Contains tells whether a version of a component keeps to the constraint.
func (c Constraint) Contains(v Version) bool {
	if c.value == nil || v.IsZero() {
		return false
	}
	parsed, err := semver.NewVersion(v.String())
	return err == nil && c.value.Check(parsed)
}

// ContainsNumbers is Contains by the three numbers alone: distributions of Kubernetes put their own revision behind them.
func (c Constraint) ContainsNumbers(v Version) bool {
	if v.IsZero() {
		return false
	}
	return c.value != nil && c.value.Check(semver.New(uint64(v.Major()), uint64(v.Minor()), uint64(v.Patch()), "", ""))
}

// Lowest returns the lowest version above the given one that keeps to the constraint (inside), or that does not, with a
// leading v, or "" if none can be told. It is one of the bounds, or the patch version that follows one.
func (c Constraint) Lowest(above Version, inside bool) string {
	var candidates []*semver.Version
	for _, bound := range strings.FieldsFunc(c.text, func(r rune) bool { return strings.ContainsRune(" ,|<>=!~^()", r) }) {
		v, err := semver.NewVersion(bound)
		if err != nil {
			continue
		}
		next := v.IncPatch()
		candidates = append(candidates, v, &next)
	}
	slices.SortFunc(candidates, (*semver.Version).Compare)
	for _, v := range candidates {
		parsed, err := Parse("v" + v.String())
		if err == nil && parsed.Compare(above) > 0 && c.value.Check(v) == inside {
			return parsed.String()
		}
	}
	return ""
}
