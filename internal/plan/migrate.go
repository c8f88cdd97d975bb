// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// migrations decides whose stored objects are rewritten or repaired before the CRDs of a component are applied. What
// can't be migrated is left out; a check blocks it.
func migrations(r *release.Rendered, in Input) []v1alpha1.Migration {
	if in.NoMigrate || in.World.Survey == nil || in.World.Survey.Stored == nil {
		return nil
	}
	stored := in.World.Survey.Stored
	var out []v1alpha1.Migration
	own := map[string]bool{}
	for _, o := range r.Objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		k := stored.Kind(o.GetName())
		if k == nil {
			continue
		}
		own[o.GetName()] = true
		if m := migration(k, stored.Owners); m != nil {
			out = append(out, *m)
		}
	}
	return append(out, elsewhere(stored, own)...)
}

// migration returns what has to be done to the objects of one kind, nil for nothing.
func migration(k *world.StoredKind, owners []world.StaleOwners) *v1alpha1.Migration {
	m := v1alpha1.Migration{
		Resource: k.Next.Name, Group: k.Next.Group, Kind: k.Next.Kind, Versions: k.Next.Names(),
		SameFields: !k.Live.Webhook && !k.Next.Webhook, Objects: k.Objects, Owners: ownersOf(k.Next.Name, owners, nil),
	}
	if drop := k.Drop(); len(drop) > 0 {
		m.Storage, m.Drop = k.Live.Target(k.Next), drop
		if m.Storage == "" || k.ReadAt == "" {
			return nil
		}
	}
	if len(m.Drop) == 0 && k.Fields.Count == 0 && len(m.Owners) == 0 {
		return nil
	}
	return &m
}

// elsewhere returns the resources outside of the component whose objects refer to owners of its kinds, unless the
// component that they belong to looks after them itself. Who repairs a reference does not matter, only that somebody does.
func elsewhere(stored *world.Stored, own map[string]bool) []v1alpha1.Migration {
	kinds := map[string]bool{}
	for crd := range own {
		k := stored.Kind(crd)
		kinds[k.Next.Group+"/"+k.Next.Kind] = true
	}
	ours := func(o world.StaleOwners) bool { return kinds[o.OwnerGroup+"/"+o.OwnerKind] }
	var out []v1alpha1.Migration
	for _, o := range stored.Owners {
		if own[o.Resource] || !ours(o) || slices.ContainsFunc(out, func(m v1alpha1.Migration) bool { return m.Resource == o.Resource }) {
			continue
		}
		if owners := ownersOf(o.Resource, stored.Owners, ours); len(owners) > 0 {
			out = append(out, v1alpha1.Migration{Resource: o.Resource, Group: o.Group, Kind: o.Kind, Objects: o.All, Owners: owners})
		}
	}
	return out
}

// ownersOf returns in which versions objects of a resource are to refer to their owners.
func ownersOf(resource string, all []world.StaleOwners, only func(world.StaleOwners) bool) []v1alpha1.OwnerVersion {
	var out []v1alpha1.OwnerVersion
	for _, o := range all {
		known := slices.ContainsFunc(out, func(v v1alpha1.OwnerVersion) bool { return v.Group == o.OwnerGroup && v.Kind == o.OwnerKind })
		if o.Resource != resource || o.To == "" || known || only != nil && !only(o) {
			continue
		}
		out = append(out, v1alpha1.OwnerVersion{Group: o.OwnerGroup, Kind: o.OwnerKind, Version: o.To, Served: o.Served})
	}
	return out
}

// storedIn returns the version that a CRD stores in once the component's stored objects are migrated.
func storedIn(c *v1alpha1.PlannedComponent, crd, now string) string {
	for _, m := range c.Migrate {
		if m.Resource == crd && m.Storage != "" && len(storage.Missing([]string{now}, m.Versions)) > 0 {
			return m.Storage
		}
	}
	return now
}
