// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/internal/version"
)

func TestContractComesFromTheReleaseSeries(t *testing.T) {
	t.Parallel()
	metadata := &clusterctlv1.Metadata{ReleaseSeries: []clusterctlv1.ReleaseSeries{
		{Major: 1, Minor: 14, Contract: "v1beta2"},
		{Major: 1, Minor: 10, Contract: "v1beta1"},
		{Major: 1, Minor: 9},
	}}
	cases := map[string]struct {
		metadata *clusterctlv1.Metadata
		version  string
		want     string
		wantOK   bool
	}{
		"the series of a patch version":               {metadata, "v1.14.2", "v1beta2", true},
		"the series of a pre-release":                 {metadata, "v1.10.0-rc.1", "v1beta1", true},
		"a series that is not listed has no contract": {metadata, "v1.15.0", "", false},
		"a series without contract has none":          {metadata, "v1.9.0", "", false},
		"without metadata there is none":              {nil, "v1.14.2", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := version.Parse(tc.version)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := version.Contract(tc.metadata, v)
			if got != tc.want || ok != tc.wantOK {
				t.Errorf("got %q, %v, want %q, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}

func TestContractCompatibility(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		core, provider string
		want           bool
	}{
		"a contract works with itself":        {"v1beta2", "v1beta2", true},
		"v1beta2 still works with v1beta1":    {"v1beta2", "v1beta1", true},
		"v1beta1 does not work with v1beta2":  {"v1beta1", "v1beta2", false},
		"v1beta2 does not work with v1alpha4": {"v1beta2", "v1alpha4", false},
		"a later contract makes no promise":   {"v1beta3", "v1beta2", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := version.ContractsCompatible(tc.core, tc.provider); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestContractsOfLabels(t *testing.T) {
	t.Parallel()
	got := version.ContractsOfLabels(map[string]string{
		"cluster.x-k8s.io/provider": "cluster-api",
		"cluster.x-k8s.io/v1beta1":  "v1beta1",
		"cluster.x-k8s.io/v1beta2":  "v1beta2_v1",
		"cluster.x-k8s.io/v1alpha4": "",
		"app":                       "v1beta2",
	})
	want := []version.CRDContract{{Contract: "v1beta2", Versions: []string{"v1", "v1beta2"}}, {Contract: "v1beta1", Versions: []string{"v1beta1"}}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(version.NewestAPIVersion([]string{"v1alpha1", "v1beta2", "v1beta1"}), "v1beta2"); diff != "" {
		t.Errorf("newest (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(version.NewestAPIVersion(nil), ""); diff != "" {
		t.Errorf("newest of none (-got +want):\n%s", diff)
	}
}
