// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/version"
)

func TestParse(t *testing.T) {
	t.Parallel()
	type result struct {
		Text                string
		Major, Minor, Patch uint
		PreRelease          string
		Err                 string
	}
	refused := func(s string) result {
		return result{Err: `"` + s + `" is not a semantic version with a leading v, such as v1.2.3`}
	}
	cases := map[string]struct {
		in   string
		want result
	}{
		"a release":                            {"v1.14.2", result{Text: "v1.14.2", Major: 1, Minor: 14, Patch: 2}},
		"a pre-release":                        {"v1.15.0-beta.1", result{Text: "v1.15.0-beta.1", Major: 1, Minor: 15, PreRelease: "beta.1"}},
		"build metadata":                       {"v1.34.1+k3s1", result{Text: "v1.34.1+k3s1", Major: 1, Minor: 34, Patch: 1}},
		"without the v it is refused":          {"1.14.2", refused("1.14.2")},
		"without a patch number it is refused": {"v1.14", refused("v1.14")},
		"with a leading zero it is refused":    {"v1.04.2", refused("v1.04.2")},
		"with four numbers it is refused":      {"v1.14.2.3", refused("v1.14.2.3")},
		"with a leading blank it is refused":   {" v1.14.2", refused(" v1.14.2")},
		"with a trailing blank it is refused":  {"v1.14.2 ", refused("v1.14.2 ")},
		"an empty text is refused":             {"", refused("")},
		"a word is refused":                    {"vlatest", refused("vlatest")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := version.Parse(tc.in)
			got := result{Text: v.String(), Major: v.Major(), Minor: v.Minor(), Patch: v.Patch(), PreRelease: v.PreRelease()}
			if err != nil {
				got.Err = err.Error()
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("Parse(%q) (-got +want):\n%s", tc.in, diff)
			}
		})
	}
}

func TestVersionsAreOrderedBySemanticPrecedence(t *testing.T) {
	t.Parallel()
	want := []string{"v0.9.9", "v1.9.0", "v1.13.4", "v1.14.0-alpha.1", "v1.14.0-rc.0", "v1.14.0", "v1.14.2", "v1.15.0", "v2.0.0"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b string) int {
		c, err := version.Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("order (-got +want):\n%s", diff)
	}
	if c, err := version.Compare("v1.2.3+a", "v1.2.3+b"); err != nil || c != 0 {
		t.Errorf("build metadata counted: %d, %v", c, err)
	}
	if _, err := version.Compare("v1.2.3", "newest"); err == nil {
		t.Error("a word was compared as a version")
	}
	if _, err := version.Compare("newest", "v1.2.3"); err == nil {
		t.Error("a word was compared as a version")
	}
	some, err := version.Parse("v0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if (version.Version{}).Compare(some) != -1 || some.Compare(version.Version{}) != 1 || (version.Version{}).Compare(version.Version{}) != 0 {
		t.Error("no version does not come before every version")
	}
}

func TestMinorDistance(t *testing.T) {
	t.Parallel()
	type answer struct {
		Distance int
		OK       bool
	}
	cases := map[string]struct {
		from, to string
		want     answer
	}{
		"one minor up":                       {"v1.13.4", "v1.14.2", answer{1, true}},
		"three minors down":                  {"v1.14.0", "v1.11.9", answer{-3, true}},
		"a patch is no distance":             {"v1.14.0", "v1.14.2", answer{0, true}},
		"across majors there is no answer":   {"v1.14.0", "v2.0.0", answer{}},
		"from no version there is no answer": {"", "v2.0.0", answer{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, _ := version.Parse(tc.from)
			to, err := version.Parse(tc.to)
			if err != nil {
				t.Fatal(err)
			}
			var got answer
			got.Distance, got.OK = version.MinorDistance(from, to)
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}
