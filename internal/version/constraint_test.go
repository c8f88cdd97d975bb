// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/version"
)

func parse(t *testing.T, s string) version.Version {
	t.Helper()
	v, err := version.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestConstraintContains(t *testing.T) {
	t.Parallel()
	versions := []string{
		"v1.11.10", "v1.11.11", "v1.12.0", "v1.12.7", "v1.12.8", "v1.13.0", "v1.13.1", "v1.13.2-rc.0", "v1.13.2", "v1.14.0-alpha.0", "v1.14.2", "v2.0.0",
	}
	cases := map[string]struct {
		in   string
		want []string
	}{
		"bounds of several minor versions": {">=1.11.11 <1.12 || >=1.12.8 <1.13 || >=1.13.2", []string{
			"v1.11.11", "v1.12.8", "v1.13.2", "v1.14.0-alpha.0", "v1.14.2", "v2.0.0",
		}},
		"commas mean and":          {">=1.13, <1.14", []string{"v1.13.0", "v1.13.1", "v1.13.2-rc.0", "v1.13.2", "v1.14.0-alpha.0"}},
		"a later one":              {">1.13.1 <1.14.0", []string{"v1.13.2-rc.0", "v1.13.2", "v1.14.0-alpha.0"}},
		"one version":              {"v1.13.1", []string{"v1.13.1"}},
		"one series":               {"~1.12", []string{"v1.12.0", "v1.12.7", "v1.12.8"}},
		"everything but one":       {"!=1.13.1 <1.14", []string{"v1.11.10", "v1.11.11", "v1.12.0", "v1.12.7", "v1.12.8", "v1.13.0", "v1.13.2-rc.0", "v1.13.2", "v1.14.0-alpha.0"}},
		"a leading v in the bound": {">=v2", []string{"v2.0.0"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := version.ParseConstraint(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range versions {
				if c.Contains(parse(t, s)) {
					got = append(got, s)
				}
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestConstraintOnKubernetesKnowsNoRevisions(t *testing.T) {
	t.Parallel()
	c, err := version.ParseConstraint(">=1.35.5 <1.36 || >=1.36.1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range []string{"v1.35.4", "v1.35.4-eks-1", "v1.35.5-eks-113cf36", "v1.35.5+k3s1", "v1.36.0", "v1.36.1-gke.100", "v1.37.0"} {
		if c.ContainsNumbers(parse(t, s)) {
			got = append(got, s)
		}
	}
	if diff := cmp.Diff(got, []string{"v1.35.5-eks-113cf36", "v1.35.5+k3s1", "v1.36.1-gke.100", "v1.37.0"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestLowestVersionOfAConstraint(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, above, want string }{
		"the bound of the same minor":        {">=1.12.8 <1.13 || >=1.13.2", "v1.12.3", "v1.12.8"},
		"the bound of the next minor":        {">=1.12.8 <1.13 || >=1.13.2", "v1.13.1", "v1.13.2"},
		"the patch that follows an open one": {">=1.12.8 <1.13 || >1.13.1", "v1.13.0", "v1.13.2"},
		"from far below, the lowest":         {">=1.12.8 <1.13 || >=1.13.2", "v1.9.0", "v1.12.8"},
		"nothing above":                      {"<1.14", "v1.15.0", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := version.ParseConstraint(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Lowest(parse(t, tc.above), true); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLowestVersionOutsideAConstraint(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{">=1.11.0 <1.11.4": "v1.11.4", "1.1.0": "v1.1.1", "<0.4": "v0.4.0", ">=1.20": ""} {
		c, err := version.ParseConstraint(in)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{">=1.11.0 <1.11.4": "v1.11.2", "1.1.0": "v1.1.0", "<0.4": "v0.3.25", ">=1.20": "v1.20.0"}[in]
		if got := c.Lowest(parse(t, have), false); got != want {
			t.Errorf("%s from %s: got %q, want %q", in, have, got, want)
		}
	}
}

func TestBadConstraintsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", " ", "newest", ">=1.12.8, and on 1.13 a release after 1.13.1", ">>1"} {
		if _, err := version.ParseConstraint(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}
