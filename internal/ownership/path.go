// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"bytes"
	"encoding/json"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// lookup returns the value at path, and whether there is one.
func lookup(in any, path fieldpath.Path) (any, bool) {
	for _, e := range path {
		next, ok := child(in, e)
		if !ok {
			return nil, false
		}
		in = next
	}
	return in, true
}

func child(in any, e fieldpath.PathElement) (any, bool) {
	if e.FieldName != nil {
		m, ok := in.(map[string]any)
		if !ok {
			return nil, false
		}
		v, ok := m[*e.FieldName]
		return v, ok
	}
	list, ok := in.([]any)
	if !ok {
		return nil, false
	}
	i := indexOf(list, e)
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// indexOf returns where the element of the list is that e means, or -1.
func indexOf(list []any, e fieldpath.PathElement) int {
	switch {
	case e.Key != nil:
		if i := slices.IndexFunc(list, func(v any) bool { return hasKey(v, *e.Key, false) }); i >= 0 {
			return i
		}
		// A manifest may leave out a key field that has a default (a port's protocol): managedFields always has it.
		return slices.IndexFunc(list, func(v any) bool { return hasKey(v, *e.Key, true) })
	case e.Value != nil:
		return slices.IndexFunc(list, func(v any) bool { return value.Equals(value.NewValueInterface(v), *e.Value) })
	case e.Index != nil && *e.Index >= 0 && *e.Index < len(list):
		return *e.Index
	}
	return -1
}

// hasKey tells whether the list entry has the key fields. With lenient, fields that the entry does not have count as
// equal, as long as one of them is there.
func hasKey(entry any, key value.FieldList, lenient bool) bool {
	m, ok := entry.(map[string]any)
	if !ok {
		return false
	}
	found := 0
	for _, f := range key {
		v, ok := m[f.Name]
		if !ok {
			if !lenient {
				return false
			}
			continue
		}
		if !value.Equals(value.NewValueInterface(v), f.Value) {
			return false
		}
		found++
	}
	return found > 0
}

// remove returns in without the value at path. Maps that become empty by it go too; list entries stay, they have keys.
// in is changed: pass a copy.
func remove(in any, path fieldpath.Path) any {
	if len(path) == 0 {
		return in
	}
	last := len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		if path[0].FieldName == nil {
			return in
		}
		name := *path[0].FieldName
		v, ok := in[name]
		if !ok {
			return in
		}
		if last {
			delete(in, name)
			return in
		}
		v = remove(v, path[1:])
		in[name] = v
		if m, ok := v.(map[string]any); ok && len(m) == 0 {
			delete(in, name)
		}
		return in
	case []any:
		i := indexOf(in, path[0])
		if i < 0 {
			return in
		}
		if last {
			return slices.Delete(in, i, i+1)
		}
		in[i] = remove(in[i], path[1:])
		return in
	}
	return in
}

// equal compares as JSON, so that 1 and 1.0 are the same.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
