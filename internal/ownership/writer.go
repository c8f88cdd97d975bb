// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/internal/world"
)

// Writer is who set a field.
type Writer struct {
	// Manager is the field manager, "kubectl-edit" for example.
	Manager string
	// Kind says who stands behind it.
	Kind world.Manager
}

// Writers answers who set the fields of one object.
type Writers struct{ all []owner }

// NewWriters reads the managedFields of an object.
func NewWriters(managed []metav1.ManagedFieldsEntry) (*Writers, error) {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetManagedFields(managed)
	all, err := owners(obj)
	if err != nil {
		return nil, fmt.Errorf("see who set fields: %w", err)
	}
	return &Writers{all: all}, nil
}

// Of returns who set the field at a path, or something in it: a person before a program before an installer, and of two
// alike the one who wrote last. There is none where nobody says to own it. A path is made of field names (string) and of
// entries of lists by their name (Named).
func (w *Writers) Of(path ...any) (Writer, bool) {
	p := fieldPath(path)
	best, found := Writer{}, false
	var at time.Time
	for _, o := range w.all {
		if o.entry.Subresource == "status" || !o.fields.Has(p) && !hasBelow(o.fields, p) {
			continue
		}
		better := rank(o.kind) > rank(best.Kind) || rank(o.kind) == rank(best.Kind) && o.at().After(at)
		if !found || better {
			best, found, at = Writer{Manager: o.entry.Manager, Kind: o.kind}, true, o.at()
		}
	}
	return best, found
}

// Owns tells whether a manager set the field at a path.
func (w *Writers) Owns(manager string, path ...any) bool {
	p := fieldPath(path)
	for _, o := range w.all {
		if o.entry.Manager == manager && (o.fields.Has(p) || hasBelow(o.fields, p)) {
			return true
		}
	}
	return false
}

func rank(m world.Manager) int {
	switch m {
	case world.ManagerPerson:
		return 3
	case world.ManagerController:
		return 2
	case world.ManagerInstaller, world.ManagerCapstan:
	}
	return 1
}

// Named is the entry of a list that has this name.
type Named string

func fieldPath(elements []any) fieldpath.Path {
	var out fieldpath.Path
	for _, e := range elements {
		switch e := e.(type) {
		case string:
			out = append(out, fieldpath.PathElement{FieldName: &e})
		case Named:
			out = append(out, fieldpath.MakePathOrDie(fieldpath.KeyByFields("name", string(e)))...)
		}
	}
	return out
}
