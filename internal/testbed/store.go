// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// Store is a resource whose objects are stored in versions, as an API server keeps them: it tells nobody which object is
// stored in which.
type Store struct {
	// Versions are those of the live CRD; Storage is the one that writes go to.
	Versions []string
	Storage  string
	// StoredVersions is the CRD's status.
	StoredVersions []string
	// Objects are in the order in which they are listed.
	Objects []*Stored
}

// Stored is one object.
type Stored struct {
	Name string
	// In is the version that it is stored in.
	In string
	// Fields and Owners are what it says about managers and owners.
	Fields []metav1.ManagedFieldsEntry
	Owners []metav1.OwnerReference
}

// Text says how the store is, on one line.
func (s *Store) Text() string {
	var out strings.Builder
	out.WriteString(s.Storage + " " + strings.Join(s.StoredVersions, ","))
	for _, o := range s.Objects {
		out.WriteString("; " + o.Name + " " + o.In)
		for _, e := range o.Fields {
			out.WriteString(" " + e.Manager + "@" + e.APIVersion)
		}
		for _, r := range o.Owners {
			out.WriteString(" <" + r.APIVersion + " " + string(r.UID))
		}
	}
	return out.String()
}

// page is how many objects are looked at together.
const page = 3

// place is how far a process has come.
type place struct {
	// all tells that every object is written, not only those that need repair.
	all    bool
	passed int
	open   []string
}

func (p *Process) goThrough(m v1alpha1.Migration) world.Migrating {
	s := p.c.Stores[m.Resource]
	if s == nil {
		return world.Migrating{Resource: m.Resource, Walked: true}
	}
	out := world.Migrating{
		Resource: m.Resource, Definition: world.Ref{Kind: "CustomResourceDefinition", Name: m.Resource},
		Versions: s.Versions, Storage: s.Storage, Follows: true, Stale: storage.Common(s.StoredVersions, m.Drop),
		Flip: len(m.Versions) > 0 && !slices.Contains(m.Versions, s.Storage),
	}
	if out.Flip {
		return out
	}
	at := p.places[m.Resource]
	if at == nil || !at.all && len(out.Stale) > 0 {
		at = &place{all: len(out.Stale) > 0}
		p.places[m.Resource] = at
	}
	for len(at.open) == 0 && at.passed < len(s.Objects) {
		next := s.Objects[at.passed:min(at.passed+page, len(s.Objects))]
		for _, o := range next {
			if at.all || storage.StaleFields(m, o.Fields) || storage.StaleOwners(m, o.Owners) {
				at.open = append(at.open, o.Name)
			}
		}
		if len(at.open) == 0 {
			at.passed += len(next)
		}
	}
	for _, name := range at.open {
		out.Open = append(out.Open, s.open(m, name))
	}
	out.Passed, out.Walked = int64(at.passed), at.passed == len(s.Objects) && len(at.open) == 0
	return out
}

func (s *Store) open(m v1alpha1.Migration, name string) world.StoredObject {
	i := slices.IndexFunc(s.Objects, func(o *Stored) bool { return o.Name == name })
	out := world.StoredObject{Ref: world.Ref{APIVersion: m.Group + "/" + s.Storage, Kind: m.Kind, Name: name}}
	if storage.StaleFields(m, s.Objects[i].Fields) {
		out.Fields = s.Objects[i].Fields
	}
	if storage.StaleOwners(m, s.Objects[i].Owners) {
		out.Owners = s.Objects[i].Owners
	}
	return out
}

// PatchAll makes the changes one after the other. It understands what the step migrate asks for.
func (p *Process) PatchAll(_ context.Context, changes []step.Change) error {
	for _, c := range changes {
		if err := p.write(func() error { return p.change(c) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *Process) change(c step.Change) error {
	if known, err := p.c.patchPool(c.Ref, c.Patch); known {
		return err
	}
	if c.Ref.Kind == "CustomResourceDefinition" {
		return p.c.Stores[c.Ref.Name].define(c, p.c)
	}
	for name, s := range p.c.Stores {
		i := slices.IndexFunc(s.Objects, func(o *Stored) bool { return o.Name == c.Ref.Name })
		if i < 0 {
			continue
		}
		if err := s.Objects[i].rewrite(c, s.Storage, p.c); err != nil {
			return err
		}
		if at := p.places[name]; at != nil {
			at.open = slices.DeleteFunc(at.open, func(o string) bool { return o == c.Ref.Name })
			if len(at.open) == 0 {
				at.passed = min(at.passed+page, len(s.Objects))
			}
		}
	}
	return nil
}

// define changes the CRD: its storage version, or what its status says about stored versions.
func (s *Store) define(c step.Change, cluster *Cluster) error {
	if c.JSON {
		var ops []struct {
			Path  string
			Value any
		}
		if err := json.Unmarshal(c.Patch, &ops); err != nil {
			return err
		}
		for i, v := range s.Versions {
			for _, op := range ops {
				if op.Path == fmt.Sprintf("/spec/versions/%d/storage", i) && op.Value == true {
					s.Storage = v
				}
			}
		}
		if !slices.Contains(s.StoredVersions, s.Storage) {
			s.StoredVersions = append(s.StoredVersions, s.Storage)
		}
		cluster.Changes = append(cluster.Changes, "store "+c.Ref.Name+" in "+s.Storage)
		return nil
	}
	var patch struct {
		Status struct{ StoredVersions []string }
	}
	if err := json.Unmarshal(c.Patch, &patch); err != nil {
		return err
	}
	s.StoredVersions = patch.Status.StoredVersions
	cluster.Changes = append(cluster.Changes, "trim "+c.Ref.Name+" to "+strings.Join(s.StoredVersions, ","))
	return nil
}

func (o *Stored) rewrite(c step.Change, in string, cluster *Cluster) error {
	var patch struct {
		Metadata struct {
			ManagedFields   []metav1.ManagedFieldsEntry
			OwnerReferences []metav1.OwnerReference
		}
	}
	if err := json.Unmarshal(c.Patch, &patch); err != nil {
		return err
	}
	if o.In != in || len(patch.Metadata.ManagedFields)+len(patch.Metadata.OwnerReferences) > 0 {
		cluster.Changes = append(cluster.Changes, "rewrite "+c.Ref.Name+" in "+in)
	}
	o.In = in
	if patch.Metadata.ManagedFields != nil {
		o.Fields = patch.Metadata.ManagedFields
	}
	if patch.Metadata.OwnerReferences != nil {
		o.Owners = patch.Metadata.OwnerReferences
	}
	return nil
}
