// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestWhatMovedToAnotherComponentIsNotPruned(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.meet(deployment("--leader-elect"), deployment("--leader-elect"), nil)
	set := f.world.Sets["plan/core"]
	// It still carries the label of the component that it was part of, and was found in another version of its group.
	set.Leftovers = []world.Ref{{APIVersion: "x/v1beta1", Kind: "Policy", Name: "moved"}, {APIVersion: "x/v1", Kind: "Policy", Name: "old"}}
	f.world.Sets["plan/core"] = set
	moved := object("Policy", "moved", map[string]any{"apiVersion": "x/v1"})
	addon := v1alpha1.Component{Name: "addon", Type: v1alpha1.ComponentManifest, Version: "v1.0.0"}
	spec, err := plan.Compute(plan.Input{World: f.world, Bundle: &release.Bundle{
		Release: &v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Version: "v2.0.0", Components: []v1alpha1.Component{f.component, addon}}},
		Components: []*release.Rendered{
			{Component: f.component, Objects: f.objects, Digest: "sha256:x"},
			{Component: addon, Objects: append(f.objects[:0:0], moved), Digest: "sha256:z"},
		},
		Digest: "sha256:y",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.ObjectReference{{APIVersion: "x/v1", Kind: "Policy", Name: "old"}}
	if diff := cmp.Diff(want, spec.Components[0].Prune); diff != "" {
		t.Errorf("prune, -want +got:\n%s", diff)
	}
}
