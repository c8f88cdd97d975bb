// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
)

func TestRangeContains(t *testing.T) {
	t.Parallel()
	versions := []string{"v1.31.9", "v1.32.0", "v1.32.0-gke.5", "v1.34.1+k3s1", "v1.36.0", "v1.36.3", "v1.37.0"}
	cases := map[string]struct {
		in       *v1alpha1.VersionRange
		want     []string
		wantText string
	}{
		"no range includes all":              {nil, versions, "any version"},
		"an empty range includes all":        {&v1alpha1.VersionRange{}, versions, "any version"},
		"both bounds belong to it":           {&v1alpha1.VersionRange{Min: "v1.32.0", Max: "v1.36.0"}, []string{"v1.32.0", "v1.32.0-gke.5", "v1.34.1+k3s1", "v1.36.0"}, "v1.32.0 to v1.36.0"},
		"a minor version means all of it":    {&v1alpha1.VersionRange{Min: "v1.32", Max: "v1.36"}, []string{"v1.32.0", "v1.32.0-gke.5", "v1.34.1+k3s1", "v1.36.0", "v1.36.3"}, "v1.32 to v1.36"},
		"without a minimum it is open below": {&v1alpha1.VersionRange{Max: "v1.32"}, []string{"v1.31.9", "v1.32.0", "v1.32.0-gke.5"}, "v1.32 or lower"},
		"without a maximum it is open above": {&v1alpha1.VersionRange{Min: "v1.36.1"}, []string{"v1.36.3", "v1.37.0"}, "v1.36.1 or higher"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := version.ParseRange(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range versions {
				v, err := version.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				if r.Contains(v) {
					got = append(got, s)
				}
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("contained (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(r.String(), tc.wantText); diff != "" {
				t.Errorf("text (-got +want):\n%s", diff)
			}
		})
	}
}

func TestBadRangesAreRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in   v1alpha1.VersionRange
		want string
	}{
		"min above max":              {v1alpha1.VersionRange{Min: "v1.37", Max: "v1.36"}, "min v1.37 is higher than max v1.36"},
		"min is no version":          {v1alpha1.VersionRange{Min: "1.36"}, `min: "1.36" is neither a version such as v1.36.0 nor a minor version such as v1.36`},
		"max is no version":          {v1alpha1.VersionRange{Max: "latest"}, `max: "latest" is neither a version such as v1.36.0 nor a minor version such as v1.36`},
		"a major alone is too vague": {v1alpha1.VersionRange{Max: "v1"}, `max: "v1" is neither a version such as v1.36.0 nor a minor version such as v1.36`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := version.ParseRange(&tc.in)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(err.Error(), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}
