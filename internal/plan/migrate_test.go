// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestMigrations(t *testing.T) {
	t.Parallel()
	refs := world.Sample[world.Ref]{Count: 2}
	for name, c := range map[string]struct {
		given func(f *fixture)
		want  []v1alpha1.Migration
		step  string
	}{
		"nothing that is stored goes": {
			given: func(f *fixture) {
				f.meet(crd("v1", "v2"), crd("v1"), nil)
				f.stored(world.StoredKind{Objects: 3, ReadAt: "v1"}, crd("v1", "v2"), crd("v1"))
			},
		},
		"the live storage version goes: another one takes its place": {
			given: func(f *fixture) {
				f.meet(crd("v2"), crd("v1", "v2"), nil)
				f.stored(world.StoredKind{Objects: 3, ReadAt: "v2"}, crd("v2"), crd("v1", "v2"))
			},
			want: []v1alpha1.Migration{{Resource: "things.x", Storage: "v2", Drop: []string{"v1"}, Versions: []string{"v2"}, Objects: 3}},
			step: "migrate/core/v1.14.2",
		},
		"only managedFields have to be repaired": {
			given: func(f *fixture) {
				f.meet(crd("v1", "v2"), crd("v1"), nil)
				f.stored(world.StoredKind{Objects: 3, ReadAt: "v1", Fields: world.Sample[world.StaleFields]{Count: 1}}, crd("v1", "v2"), crd("v1"))
			},
			want: []v1alpha1.Migration{{Resource: "things.x", Versions: []string{"v1", "v2"}, Objects: 3}},
			step: "migrate/core/v1.14.2",
		},
		"objects of another kind refer to owners at a version that goes": {
			given: func(f *fixture) {
				f.meet(crd("v1", "v2"), crd("v1"), nil)
				f.stored(world.StoredKind{Objects: 3, ReadAt: "v1"}, crd("v1", "v2"), crd("v1"))
				f.world.Survey.Stored.Owners = []world.StaleOwners{
					{Resource: "secrets", Kind: "Secret", OwnerVersion: "v0", To: "v1", Served: []string{"v1"}, Objects: refs, All: 9},
					{Resource: "secrets", Kind: "Secret", OwnerGroup: "other", OwnerKind: "Other", OwnerVersion: "v0", To: "v1", Objects: refs, All: 9},
					{Resource: "configmaps", Kind: "ConfigMap", OwnerVersion: "v0", Objects: refs, All: 9},
				}
			},
			want: []v1alpha1.Migration{{Resource: "secrets", Kind: "Secret", Objects: 9, Owners: []v1alpha1.OwnerVersion{{Version: "v1", Served: []string{"v1"}}}}},
			step: "migrate/core/v1.14.2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture()
			c.given(f)
			spec := f.compute(t)
			if diff := cmp.Diff(c.want, spec.Components[0].Migrate); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			first := ""
			if steps(spec)[0] != "crds/core/v1.14.2" {
				first = steps(spec)[0]
			}
			if first != c.step {
				t.Errorf("the first step before the CRDs is %q, want %q", first, c.step)
			}
		})
	}
}

// TestMigratedStorageVersionIsHeldBack: once objects are migrated to the version that both CRDs have, that one stays the
// storage version until the new webhook has answered.
func TestMigratedStorageVersionIsHeldBack(t *testing.T) {
	t.Parallel()
	f := newFixture()
	next, live := crd("v3", "v2"), crd("v1", "v2")
	f.meet(next, live, nil)
	f.stored(world.StoredKind{Objects: 3, ReadAt: "v1"}, next, live)
	want := []v1alpha1.TwoPhaseCRD{{Name: "things.x", Storage: "v2"}}
	if diff := cmp.Diff(want, f.compute(t).Components[0].TwoPhase); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
