// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// valueLimit is how much of a value a difference shows.
const valueLimit = 60

// Difference says in one line where two states of an object first differ, in path order; empty if they don't. What the
// API server writes by itself (managedFields, resourceVersion, generation) does not count. Values of a Secret are not
// shown.
func Difference(before, after *unstructured.Unstructured) string {
	path, a, b, differ := firstDifference("", content(before), content(after))
	if !differ {
		return ""
	}
	if before.GetKind() == "Secret" {
		return path
	}
	return fmt.Sprintf("%s: %s, would be %s", path, show(a), show(b))
}

// content returns the object's content without what changes by itself.
func content(obj *unstructured.Unstructured) map[string]any {
	out := maps.Clone(obj.Object)
	meta, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	meta = maps.Clone(meta)
	for _, name := range []string{"managedFields", "resourceVersion", "generation", "selfLink"} {
		delete(meta, name)
	}
	out["metadata"] = meta
	return out
}

// absent stands for a value that is not there.
type absent struct{}

func firstDifference(path string, a, b any) (where string, x, y any, differ bool) {
	if am, ok := a.(map[string]any); ok {
		if bm, ok := b.(map[string]any); ok {
			return firstInMaps(path, am, bm)
		}
	}
	if al, ok := a.([]any); ok {
		if bl, ok := b.([]any); ok {
			return firstInLists(path, al, bl)
		}
	}
	if equal(a, b) && isAbsent(a) == isAbsent(b) {
		return "", nil, nil, false
	}
	return path, a, b, true
}

func firstInMaps(path string, a, b map[string]any) (where string, x, y any, differ bool) {
	names := map[string]bool{}
	for k := range a {
		names[k] = true
	}
	for k := range b {
		names[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		if where, x, y, differ = firstDifference(join(path, k), at(a, k), at(b, k)); differ {
			return where, x, y, true
		}
	}
	return "", nil, nil, false
}

func firstInLists(path string, a, b []any) (where string, x, y any, differ bool) {
	for i := range max(len(a), len(b)) {
		var u, v any = absent{}, absent{}
		if i < len(a) {
			u = a[i]
		}
		if i < len(b) {
			v = b[i]
		}
		if where, x, y, differ = firstDifference(path+"["+strconv.Itoa(i)+"]", u, v); differ {
			return where, x, y, true
		}
	}
	return "", nil, nil, false
}

func at(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

func isAbsent(v any) bool {
	_, ok := v.(absent)
	return ok
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func show(v any) string {
	if isAbsent(v) {
		return "absent"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	if r := []rune(string(b)); len(r) > valueLimit {
		return string(r[:valueLimit]) + "…"
	}
	return string(b)
}
