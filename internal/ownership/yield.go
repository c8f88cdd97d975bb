// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/internal/world"
)

// Kept is one field that stays as a person set it, although the manifest says something else.
type Kept struct {
	// Path is the field, `.spec.template.spec.containers[name="manager"].image` for example.
	Path string
	// Manager is the field manager that set it, "kubectl-edit" for example.
	Manager string
	// At is when that manager last wrote to the object.
	At time.Time
}

// Yield returns what is to be applied when repairs by hand are respected: wanted without the fields that a person set to
// something else in live after since. Nothing yields if since is zero or live is nil. Neither object is changed.
//
//	wanted   image: v1.14.2      args: [--a]
//	live     image: mirror/v1    args: [--a]     managed by kubectl-set, after since: image
//	result   (no image)          args: [--a]     kept: image
//
// Times in managedFields are whole seconds of the API server's clock and belong to all fields of an entry. An entry of the
// very second of since counts as earlier: what a person changed just before a run was in sight of its plan, and nobody
// repairs what has not had a second to fail. A person who repaired one field after since keeps the fields that the same
// tool set before, unless Capstan has applied in between.
func Yield(wanted, live *unstructured.Unstructured, since time.Time) (*unstructured.Unstructured, []Kept, error) {
	out := wanted.DeepCopy()
	if since.IsZero() || live == nil {
		return out, nil, nil
	}
	owners, err := owners(live)
	if err != nil {
		return nil, nil, err
	}
	var kept []Kept
	for _, o := range owners {
		if !o.repairs(since) {
			continue
		}
		for path := range o.fields.Leaves().All() {
			if !conflicts(wanted, live, path, owners) {
				continue
			}
			out.Object, _ = remove(out.Object, path).(map[string]any)
			kept = append(kept, Kept{Path: path.String(), Manager: o.entry.Manager, At: o.at()})
		}
	}
	slices.SortFunc(kept, func(a, b Kept) int {
		return strings.Compare(a.Path+"\x00"+a.Manager, b.Path+"\x00"+b.Manager)
	})
	return out, kept, nil
}

// conflicts tells whether wanted and live disagree about a field.
func conflicts(wanted, live *unstructured.Unstructured, path fieldpath.Path, all []owner) bool {
	if len(path) == 0 || path[len(path)-1].FieldName == nil {
		return false // membership in a list: a merge keeps both sides' entries
	}
	want, ok := lookup(wanted.Object, path)
	if !ok {
		return false
	}
	have, ok := lookup(live.Object, path)
	if !ok || equal(want, have) {
		return false
	}
	// An owned map with fields of its own below it merges; its owner only claims that it is there.
	return !slices.ContainsFunc(all, func(o owner) bool { return hasBelow(o.fields, path) })
}

// owner is one entry of managedFields, decoded.
type owner struct {
	entry  metav1.ManagedFieldsEntry
	fields *fieldpath.Set
	kind   world.Manager
}

func (o owner) at() time.Time {
	if o.entry.Time == nil {
		return time.Time{}
	}
	return o.entry.Time.Time
}

// repairs tells whether the entry is a repair by hand after the given moment.
func (o owner) repairs(since time.Time) bool {
	if o.kind != world.ManagerPerson || o.entry.Subresource == "status" {
		return false
	}
	return o.at().After(since)
}

func owners(obj *unstructured.Unstructured) ([]owner, error) {
	var out []owner
	for _, e := range obj.GetManagedFields() {
		if e.FieldsType != "FieldsV1" || e.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read managed fields of %s by %s: %w", world.RefOf(obj), e.Manager, err)
		}
		out = append(out, owner{entry: e, fields: set, kind: world.ManagerOf(e.Manager, e.Operation)})
	}
	return out, nil
}

// hasBelow tells whether the set has a path that goes through path.
func hasBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, e := range path {
		next, ok := set.Children.Get(e)
		if !ok {
			return false
		}
		set = next
	}
	return !set.Empty()
}
