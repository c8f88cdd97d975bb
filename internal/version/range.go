// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"math"
	"regexp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Range is an inclusive range of versions. A bound that is no version is open.
//
// Only the three numbers count, not pre-release and build metadata: distributions put their own revision there
// ("v1.34.1-gke.1829001", "v1.34.1-eks-113cf36"), and by the letter of semantic versioning these would lie below v1.34.1.
type Range struct {
	min, max Version
	text     string
}

// ParseRange reads a range. A bound may leave out the patch number and then means the whole minor version: a maximum of
// "v1.36" includes every v1.36.x. A nil range includes everything.
func ParseRange(r *v1alpha1.VersionRange) (Range, error) {
	if r == nil {
		return Range{}, nil
	}
	low, err := bound(r.Min, 0)
	if err != nil {
		return Range{}, fmt.Errorf("min: %w", err)
	}
	high, err := bound(r.Max, math.MaxInt32)
	if err != nil {
		return Range{}, fmt.Errorf("max: %w", err)
	}
	if !low.IsZero() && !high.IsZero() && low.numbers(high) > 0 {
		return Range{}, fmt.Errorf("min %s is higher than max %s", r.Min, r.Max)
	}
	return Range{min: low, max: high, text: describe(*r)}, nil
}

// Contains tells whether the version lies in the range.
func (r Range) Contains(v Version) bool {
	return !r.Below(v) && (r.max.IsZero() || v.numbers(r.max) <= 0)
}

// Min returns the lower end, no version where it is open.
func (r Range) Min() Version { return r.min }

// Max returns the upper end, no version where it is open.
func (r Range) Max() Version { return r.max }

// Below tells whether the version is lower than the range allows.
func (r Range) Below(v Version) bool { return !r.min.IsZero() && v.numbers(r.min) < 0 }

// String describes the range for people: "v1.32 to v1.36", "v1.32 or higher", "any version".
func (r Range) String() string {
	if r.text == "" {
		return "any version"
	}
	return r.text
}

func describe(r v1alpha1.VersionRange) string {
	switch {
	case r.Min == "" && r.Max == "":
		return ""
	case r.Min == "":
		return r.Max + " or lower"
	case r.Max == "":
		return r.Min + " or higher"
	}
	return r.Min + " to " + r.Max
}

// bound reads one end of a range; patch stands in where the bound names a minor version only.
func bound(s string, patch int) (Version, error) {
	if s == "" {
		return Version{}, nil
	}
	if regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`).MatchString(s) {
		return Parse(fmt.Sprintf("%s.%d", s, patch))
	}
	v, err := Parse(s)
	if err != nil {
		return Version{}, fmt.Errorf("%q is neither a version such as v1.36.0 nor a minor version such as v1.36", s)
	}
	return v, nil
}
