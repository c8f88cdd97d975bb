// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/storage"
)

// TopicStored is what is stored for the CRDs that are to come.
const TopicStored Topic = "Stored objects"

// StoredKind is what is stored of one kind whose CRD is to come and is there already.
type StoredKind struct {
	// Live is the CRD as it is, Next as it will be.
	Live, Next storage.Definition
	// Objects is how many there are, read in version ReadAt; empty if no version is served.
	Objects int64
	ReadAt  string
	// JudgedAt is the version of the CRD to come whose schema the objects were judged by, empty if they could not be:
	// they would have to be converted by a webhook that does not run yet.
	JudgedAt string
	// Invalid are objects that satisfy the schema of the live CRD and not that of the CRD to come, Already are those that
	// satisfy neither.
	Invalid, Already Sample[InvalidObject]
	// Refused are objects that can't be written as they are. Only those of a kind that has to be rewritten are asked for,
	// and of many only some.
	Refused Sample[RefusedObject]
	// Fields are objects whose managedFields have entries at a version that the CRD to come does not have.
	Fields Sample[StaleFields]
}

// Drop returns the versions that objects may be stored in and that the CRD to come does not have.
func (k *StoredKind) Drop() []string {
	drop := k.Next.Gone(k.Live.Stored)
	for _, v := range k.Next.Gone([]string{k.Live.Storage()}) {
		if !slices.Contains(drop, v) {
			drop = append(drop, v)
		}
	}
	return drop
}

// Sample counts things and holds the first few.
type Sample[T any] struct {
	Count int64
	First []T
}

// sampleSize is how many a Sample holds.
const sampleSize = 5

// Add counts a thing.
func (s *Sample[T]) Add(t T) {
	s.Count++
	if len(s.First) < sampleSize {
		s.First = append(s.First, t)
	}
}

// InvalidObject is an object that does not satisfy a schema.
type InvalidObject struct {
	Object Ref
	// Path and Rule are the first fault; More counts the others.
	Path, Rule string
	More       int
}

// RefusedObject is an object that the API server does not take as it is.
type RefusedObject struct {
	Object Ref
	Why    string
}

// StaleFields is an object with entries of managedFields at versions that go.
type StaleFields struct {
	Object Ref
	// Version, Manager and At are those of the newest such entry.
	Version, Manager string
	At               time.Time
}

// StaleOwners are references from objects of one resource to owners of one kind at one version that is not served
// afterwards.
type StaleOwners struct {
	// Resource, Group and Kind are those of the objects.
	Resource, Group, Kind string
	// OwnerGroup, OwnerKind and OwnerVersion are those of the references.
	OwnerGroup, OwnerKind, OwnerVersion string
	// To is the version to write instead: served now and afterwards; empty if there is none.
	To string
	// Served are the versions that are served afterwards.
	Served []string
	// Objects refer to such owners.
	Objects Sample[Ref]
	// All is how many objects of the resource there are.
	All int64
}

// Stored is what is stored for the CRDs that are to come.
type Stored struct {
	// Kinds are those that are there already, sorted by CRD.
	Kinds []StoredKind
	// Owners are references at versions that are not served, sorted.
	Owners []StaleOwners
}

// Kind returns what is stored of the kind of a CRD, nil if it was not looked at.
func (s *Stored) Kind(crd string) *StoredKind {
	if s == nil {
		return nil
	}
	for i := range s.Kinds {
		if s.Kinds[i].Next.Name == crd {
			return &s.Kinds[i]
		}
	}
	return nil
}
