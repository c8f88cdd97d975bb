// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Version is a semantic version with a leading v. The zero value is no version.
type Version struct {
	text  string
	value *utilversion.Version
}

// Parse reads a semantic version with a leading v and all three numbers, "v1.14.2" or "v1.15.0-beta.1".
func Parse(s string) (Version, error) {
	value, err := utilversion.ParseSemantic(s)
	if err != nil || !strings.HasPrefix(s, "v") || strings.TrimSpace(s) != s { // the library trims and needs no v
		return Version{}, fmt.Errorf("%q is not a semantic version with a leading v, such as v1.2.3", s)
	}
	return Version{text: s, value: value}, nil
}

// Compare orders two versions as strings; it fails when one of them is not a version.
func Compare(a, b string) (int, error) {
	left, err := Parse(a)
	if err != nil {
		return 0, err
	}
	right, err := Parse(b)
	if err != nil {
		return 0, err
	}
	return left.Compare(right), nil
}

// String returns the version as it was written.
func (v Version) String() string { return v.text }

// IsZero tells that v is no version.
func (v Version) IsZero() bool { return v.value == nil }

// Major returns the first number.
func (v Version) Major() uint {
	if v.IsZero() {
		return 0
	}
	return v.value.Major()
}

// Minor returns the second number.
func (v Version) Minor() uint {
	if v.IsZero() {
		return 0
	}
	return v.value.Minor()
}

// Patch returns the third number.
func (v Version) Patch() uint {
	if v.IsZero() {
		return 0
	}
	return v.value.Patch()
}

// PreRelease returns what follows the first hyphen, without build metadata.
func (v Version) PreRelease() string {
	if v.IsZero() {
		return ""
	}
	return v.value.PreRelease()
}

// Compare returns -1, 0 or 1 by the precedence of semantic versions: a pre-release comes before its release, build
// metadata does not count. No version comes before every version.
func (v Version) Compare(other Version) int {
	switch {
	case v.IsZero() && other.IsZero():
		return 0
	case v.IsZero():
		return -1
	case other.IsZero():
		return 1
	case v.value.LessThan(other.value):
		return -1
	case other.value.LessThan(v.value):
		return 1
	}
	return 0
}

// MinorDistance returns how many minor versions lie between two versions, negative when to is the older one. It has no
// answer across major versions.
func MinorDistance(from, to Version) (distance int, ok bool) {
	if from.IsZero() || to.IsZero() || from.Major() != to.Major() {
		return 0, false
	}
	return int(to.Minor()) - int(from.Minor()), true
}

// numbers compares major, minor and patch alone.
func (v Version) numbers(other Version) int {
	for _, pair := range [3][2]uint{{v.Major(), other.Major()}, {v.Minor(), other.Minor()}, {v.Patch(), other.Patch()}} {
		if pair[0] != pair[1] {
			if pair[0] < pair[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}
