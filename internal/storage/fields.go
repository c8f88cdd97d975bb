// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// StaleField tells whether an entry of managedFields is at a version that is not among versions. The API server then
// fails each server-side apply to the object.
func StaleField(e metav1.ManagedFieldsEntry, group string, versions []string) bool {
	gv, err := schema.ParseGroupVersion(e.APIVersion)
	return err != nil || gv.Group != group || !slices.Contains(versions, gv.Version)
}

// StaleFields tells whether any entry of an object of m is at a version that goes.
func StaleFields(m v1alpha1.Migration, entries []metav1.ManagedFieldsEntry) bool {
	return len(m.Versions) > 0 && slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return StaleField(e, m.Group, m.Versions)
	})
}

// RepairFields returns entries of managedFields without any at a version that goes: what they own is owned in version at
// instead. Where versions have different fields, only the ownership of metadata is moved, as the other paths may mean
// something else there. At least one entry is left: an object without any counts as never managed, and the API server
// would make up an owner of all its fields at the next apply.
func RepairFields(m v1alpha1.Migration, at string, entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	var moved []metav1.ManagedFieldsEntry
	for _, e := range entries {
		if StaleField(e, m.Group, m.Versions) {
			moved = append(moved, e)
			continue
		}
		out = append(out, *e.DeepCopy())
	}
	for _, e := range moved {
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, err
		}
		if !m.SameFields {
			fields = underMetadata(fields)
		}
		e.APIVersion = schema.GroupVersion{Group: m.Group, Version: at}.String()
		if out, err = add(out, e, fields); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 && len(moved) > 0 {
		seed := moved[0]
		seed.APIVersion, seed.FieldsV1 = schema.GroupVersion{Group: m.Group, Version: at}.String(), metav1.NewFieldsV1(`{"f:metadata":{"f:name":{}}}`)
		out = append(out, seed)
	}
	return out, nil
}

// add gives fields to the entry that is like e, or to a new one; nothing is added where there are none.
func add(entries []metav1.ManagedFieldsEntry, e metav1.ManagedFieldsEntry, fields *fieldpath.Set) ([]metav1.ManagedFieldsEntry, error) {
	if fields.Empty() {
		return entries, nil
	}
	i := slices.IndexFunc(entries, func(o metav1.ManagedFieldsEntry) bool {
		return o.Manager == e.Manager && o.Operation == e.Operation && o.Subresource == e.Subresource && o.APIVersion == e.APIVersion
	})
	if i >= 0 {
		have, err := fieldsOf(entries[i])
		if err != nil {
			return nil, err
		}
		fields = fields.Union(have)
		e = entries[i]
	}
	raw, err := fields.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encode the fields of %s: %w", e.Manager, err)
	}
	e.FieldsType, e.FieldsV1 = "FieldsV1", metav1.NewFieldsV1(string(raw))
	if i >= 0 {
		entries[i] = e
		return entries, nil
	}
	return append(entries, e), nil
}

func fieldsOf(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if e.FieldsV1 == nil || len(e.FieldsV1.GetRawBytes()) == 0 {
		return set, nil
	}
	if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("read the fields of %s: %w", e.Manager, err)
	}
	return set, nil
}

// underMetadata returns the paths below metadata, which is the same in every version.
func underMetadata(s *fieldpath.Set) *fieldpath.Set {
	out := fieldpath.NewSet()
	for p := range s.All() {
		if len(p) > 0 && p[0].FieldName != nil && *p[0].FieldName == "metadata" {
			out.Insert(p.Copy())
		}
	}
	return out
}

// StaleOwner returns the kind whose reference is at a version that is not served afterwards, nil if it is fine or of no
// concern.
func StaleOwner(owners []v1alpha1.OwnerVersion, ref metav1.OwnerReference) *v1alpha1.OwnerVersion {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	for i, o := range owners {
		if o.Group == gv.Group && o.Kind == ref.Kind && !slices.Contains(o.Served, gv.Version) {
			return &owners[i]
		}
	}
	return nil
}

// StaleOwners tells whether any reference of an object of m is at such a version.
func StaleOwners(m v1alpha1.Migration, refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return StaleOwner(m.Owners, r) != nil })
}

// RepairOwners returns the references with those at such versions at the one that is written instead; everything else of
// them stays, the UID and the flags above all.
func RepairOwners(m v1alpha1.Migration, refs []metav1.OwnerReference) []metav1.OwnerReference {
	out := make([]metav1.OwnerReference, 0, len(refs))
	for _, r := range refs {
		if o := StaleOwner(m.Owners, r); o != nil {
			r.APIVersion = schema.GroupVersion{Group: o.Group, Version: o.Version}.String()
		}
		out = append(out, r)
	}
	return out
}
