// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/storage"
)

func definition(t *testing.T, text string) storage.Definition {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	d, err := storage.Read(u)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRead(t *testing.T) {
	t.Parallel()
	got := definition(t, `
metadata: {name: things.example.org}
spec:
  group: example.org
  names: {kind: Thing}
  conversion: {strategy: Webhook}
  versions: [{name: v1, served: true, storage: false}, {name: v2, served: false, storage: true}]
status: {storedVersions: [v1, v2]}
`)
	want := storage.Definition{
		Name: "things.example.org", Group: "example.org", Kind: "Thing", Webhook: true, Stored: []string{"v1", "v2"},
		Versions: []storage.Version{{Name: "v1", Served: true}, {Name: "v2", Storage: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.ReadAt() != "v1" {
		t.Errorf("objects are read at %s, want v1: the storage version is not served", got.ReadAt())
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	at := func(stored string, names ...string) storage.Definition {
		var d storage.Definition
		for _, n := range names {
			d.Versions = append(d.Versions, storage.Version{Name: n, Storage: n == stored})
		}
		return d
	}
	for name, c := range map[string]struct {
		live, next storage.Definition
		want       string
	}{
		"the storage version stays":                         {at("v1", "v0", "v1"), at("v2", "v1", "v2"), "v1"},
		"it goes, and the next one is there already":        {at("v0", "v0", "v1", "v2"), at("v2", "v1", "v2"), "v2"},
		"it goes, and the next one is not there yet":        {at("v0", "v0", "v1"), at("v2", "v1", "v2"), "v1"},
		"no version is in both":                             {at("v0", "v0"), at("v2", "v1", "v2"), ""},
		"the storage version stays, though another is next": {at("v1", "v1", "v2"), at("v2", "v1", "v2"), "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.live.Target(c.next); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func entry(manager, operation, version, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: version, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestRepairFields(t *testing.T) {
	t.Parallel()
	same := v1alpha1.Migration{Group: "example.org", Versions: []string{"v1", "v2"}, SameFields: true}
	differ := same
	differ.SameFields = false
	for name, c := range map[string]struct {
		migration v1alpha1.Migration
		in, want  []metav1.ManagedFieldsEntry
	}{
		"nothing goes": {
			migration: same,
			in:        []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v2", `{"f:spec":{"f:x":{}}}`)},
			want:      []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v2", `{"f:spec":{"f:x":{}}}`)},
		},
		"an entry is moved": {
			migration: same,
			in:        []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v0", `{"f:spec":{"f:x":{}}}`)},
			want:      []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v1", `{"f:spec":{"f:x":{}}}`)},
		},
		"an entry is moved into one of the same manager": {
			migration: same,
			in: []metav1.ManagedFieldsEntry{
				entry("a", "Update", "example.org/v0", `{"f:spec":{"f:x":{}}}`), entry("b", "Update", "example.org/v1", `{"f:spec":{"f:z":{}}}`),
				entry("a", "Update", "example.org/v1", `{"f:spec":{"f:y":{}}}`),
			},
			want: []metav1.ManagedFieldsEntry{
				entry("b", "Update", "example.org/v1", `{"f:spec":{"f:z":{}}}`), entry("a", "Update", "example.org/v1", `{"f:spec":{"f:x":{},"f:y":{}}}`),
			},
		},
		"fields may mean something else: metadata is moved, the rest is given up": {
			migration: differ,
			in:        []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v0", `{"f:metadata":{"f:labels":{"f:l":{}}},"f:spec":{"f:x":{}}}`)},
			want:      []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v1", `{"f:metadata":{"f:labels":{"f:l":{}}}}`)},
		},
		"nothing is left: the object must not count as never managed": {
			migration: differ,
			in:        []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v0", `{"f:spec":{"f:x":{}}}`)},
			want:      []metav1.ManagedFieldsEntry{entry("a", "Apply", "example.org/v1", `{"f:metadata":{"f:name":{}}}`)},
		},
		"an entry of another group goes": {
			migration: differ,
			in: []metav1.ManagedFieldsEntry{
				entry("a", "Apply", "old.example.org/v1", `{"f:spec":{"f:x":{}}}`), entry("b", "Update", "example.org/v1", `{"f:spec":{"f:z":{}}}`),
			},
			want: []metav1.ManagedFieldsEntry{entry("b", "Update", "example.org/v1", `{"f:spec":{"f:z":{}}}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := storage.RepairFields(c.migration, "v1", c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if storage.StaleFields(c.migration, got) {
				t.Error("what is repaired still counts as stale")
			}
		})
	}
}

func TestRepairOwners(t *testing.T) {
	t.Parallel()
	m := v1alpha1.Migration{Owners: []v1alpha1.OwnerVersion{{Group: "example.org", Kind: "Parent", Version: "v1", Served: []string{"v1", "v2"}}}}
	yes := true
	in := []metav1.OwnerReference{
		{APIVersion: "example.org/v0", Kind: "Parent", Name: "p", UID: "1", Controller: &yes, BlockOwnerDeletion: &yes},
		{APIVersion: "example.org/v2", Kind: "Parent", Name: "q", UID: "2"},
		{APIVersion: "example.org/v0", Kind: "Other", Name: "r", UID: "3"},
	}
	want := []metav1.OwnerReference{
		{APIVersion: "example.org/v1", Kind: "Parent", Name: "p", UID: "1", Controller: &yes, BlockOwnerDeletion: &yes}, in[1], in[2],
	}
	if !storage.StaleOwners(m, in) {
		t.Error("a reference at a version that goes is not noticed")
	}
	got := storage.RepairOwners(m, in)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if storage.StaleOwners(m, got) {
		t.Error("what is repaired still counts as stale")
	}
}
