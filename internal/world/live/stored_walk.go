// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// walks are the places that this process has come to in the stored objects of resources. Its zero value is ready.
type walks struct {
	mu sync.Mutex
	m  map[string]*walk
}

func (ws *walks) of(resource string) *walk {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.m == nil {
		ws.m = map[string]*walk{}
	}
	if ws.m[resource] == nil {
		ws.m[resource] = &walk{open: map[objectKey]*openObject{}}
	}
	return ws.m[resource]
}

// walk is the way through the objects of one resource.
type walk struct {
	// definition is the CRD at resourceVersion; follows is the resource version at which the API server was seen to store
	// as it says. Only observations touch these, and they come one after the other.
	definition      *storage.Definition
	resourceVersion string
	follows         string
	// storage is the version that objects were stored in when the walk began; all tells that each is to be written.
	storage string
	all     bool
	next    string
	ended   bool

	mu     sync.Mutex
	passed int64
	open   map[objectKey]*openObject
}

// openObject is an object that has to be written.
type openObject struct {
	world.StoredObject
	// failed tells that the last attempt did not work, so that it has to be looked at again.
	failed bool
}

// restart begins anew when more has to be written than the walk so far was for.
func (w *walk) restart(stored string, all bool) {
	if !all || w.all && w.storage == stored {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.storage, w.all, w.next, w.ended, w.passed = stored, true, "", false, 0
	clear(w.open)
}

// look decides whether an object has to be written.
func (w *walk) look(want v1alpha1.Migration, m *apimeta.RESTMapping, meta *metav1.PartialObjectMetadata) {
	key := objectKey{namespace: meta.Namespace, name: meta.Name}
	o := &openObject{StoredObject: world.StoredObject{
		Ref:             world.Ref{APIVersion: m.GroupVersionKind.GroupVersion().String(), Kind: want.Kind, Namespace: meta.Namespace, Name: meta.Name},
		ResourceVersion: meta.ResourceVersion,
	}}
	if storage.StaleFields(want, meta.ManagedFields) {
		o.Fields = meta.ManagedFields
	}
	if storage.StaleOwners(want, meta.OwnerReferences) {
		o.Owners = meta.OwnerReferences
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.open[key]; before != nil {
		o.Refused = before.Refused
	}
	delete(w.open, key)
	if !w.all && o.Fields == nil && o.Owners == nil {
		w.passed++
		return
	}
	w.open[key] = o
}

func (w *walk) done(key objectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[key] != nil {
		delete(w.open, key)
		w.passed++
	}
}

func (w *walk) openCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// failed returns the open objects whose last attempt did not work.
func (w *walk) failed() []objectKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []objectKey
	for key, o := range w.open {
		if o.failed {
			out = append(out, key)
		}
	}
	return out
}

// tell reports the place.
func (w *walk) tell(out *world.Migrating) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out.Passed, out.Walked = w.passed, w.ended && len(w.open) == 0
	for _, key := range slices.SortedFunc(maps.Keys(w.open), func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	}) {
		out.Open = append(out.Open, w.open[key].StoredObject)
	}
}

// Patched tells the Observer what became of the attempt to write an open object.
func (o *Observer) Patched(ref world.Ref, err error) {
	o.walks.mu.Lock()
	all := slices.Collect(maps.Values(o.walks.m))
	o.walks.mu.Unlock()
	key := objectKey{namespace: ref.Namespace, name: ref.Name}
	for _, w := range all {
		if w.concerns(key, ref) {
			w.attempted(key, err)
		}
	}
}

func (w *walk) concerns(key objectKey, ref world.Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[key] != nil && w.open[key].Ref == ref
}

func (w *walk) attempted(key objectKey, err error) {
	if err == nil {
		w.done(key)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.open[key]
	o.failed, o.Refused = true, ""
	switch diagnose.Classify(err) {
	case diagnose.ClassDenied, diagnose.ClassInvalid, diagnose.ClassImmutable, diagnose.ClassForbidden:
		o.Refused = diagnose.Words(err)
	case diagnose.ClassNone, diagnose.ClassUnreachable, diagnose.ClassWebhookSilent, diagnose.ClassNotFound, diagnose.ClassConflict:
	}
}
