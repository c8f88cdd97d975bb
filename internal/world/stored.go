// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Migrating is the observed state of one resource whose stored objects are rewritten or repaired.
//
// The API server does not say in which version an object is stored. So all objects are gone through once, in pages: those
// of the page at hand that still have to be written are open; when there are no more pages, everything was written since
// the storage version is what it is. The place is held in memory only. A process that takes over begins again, which
// costs writes that change nothing.
type Migrating struct {
	// Resource is the resource with its group.
	Resource string
	// Unreadable says why the objects can't be read right now: a conversion webhook does not answer.
	Unreadable string
	// Definition is the CRD, with its resource version; zero if the resource is built in or its kind is gone.
	Definition      Ref
	ResourceVersion string
	// Versions are those of the live CRD, in its order, and Storage is the one that objects are stored in.
	Versions []string
	Storage  string
	// Flip tells that the live storage version goes, so that another has to take its place first.
	Flip bool
	// Follows tells that the API server works with the storage version that the CRD asks for.
	Follows bool
	// Stale are versions in status.storedVersions that go.
	Stale []string
	// Passed counts the objects that need no more writing.
	Passed int64
	// Open are objects that have to be written now.
	Open []StoredObject
	// Walked tells that every object was gone through.
	Walked bool
}

// Settled tells that nothing is left to do.
func (m Migrating) Settled() bool {
	return m.Unreadable == "" && !m.Flip && len(m.Stale) == 0 && m.Walked && len(m.Open) == 0
}

// StoredObject is an object that has to be written.
type StoredObject struct {
	Ref             Ref
	ResourceVersion string
	// Fields are its managedFields, if some of them are at a version that goes.
	Fields []metav1.ManagedFieldsEntry
	// Owners are its ownerReferences, if some of them are at a version that is not served afterwards.
	Owners []metav1.OwnerReference
	// Refused is the API server's answer to the last attempt, if that was a no.
	Refused string
}

// FieldConflict is a field of a CRD or webhook configuration that stands in the way, as another manager owns it.
type FieldConflict struct {
	// Field is its path, Manager who owns it.
	Field   string
	Manager string
}
