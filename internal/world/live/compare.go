// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// driftPaths is how many differing fields a drift names.
	driftPaths = 3
	// driftValue is how much of a value it shows.
	driftValue = 40
)

// drift says in one line what a dry run would change, empty if nothing. What the API server keeps for itself, and the
// status, are no content.
func drift(live, applied *unstructured.Unstructured) string {
	text, _ := difference(live, applied)
	return text
}

// difference is drift, with a digest of everything that differs and not only of what is shown.
func difference(live, applied *unstructured.Unstructured) (text, digest string) {
	var d differ
	// A Secret's values are nobody's business in a plan.
	d.hideValues = live.GetKind() == "Secret"
	d.walk("", content(live), content(applied))
	if len(d.found) == 0 {
		return "", ""
	}
	return d.text(), hex.EncodeToString(d.sum.Sum(nil))
}

func (d *differ) text() string {
	shown := d.found
	if len(shown) > driftPaths {
		shown = append(slices.Clone(shown[:driftPaths]), fmt.Sprintf("and %d more", len(d.found)-driftPaths))
	}
	return strings.Join(shown, "; ")
}

// content returns an object without what is not content. It shares what it does not change.
func content(u *unstructured.Unstructured) map[string]any {
	out := maps.Clone(u.Object)
	delete(out, "status")
	if m, ok := out["metadata"].(map[string]any); ok {
		m = maps.Clone(m)
		for _, field := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"} {
			delete(m, field)
		}
		out["metadata"] = m
	}
	return out
}

// differ collects the differences of two JSON trees, in the order of their paths.
type differ struct {
	hideValues bool
	found      []string
	// sum is over all of them, with whole values.
	sum hash.Hash
}

// add notes that two values differ.
func (d *differ) add(path string, from, to any) {
	d.found = append(d.found, d.line(path, from, to))
	if d.sum == nil {
		d.sum = sha256.New()
	}
	raw, err := json.Marshal([]any{path, from, to})
	if err != nil { // what came as JSON is JSON
		raw = fmt.Appendf(nil, "%s %v %v", path, from, to)
	}
	d.sum.Write(raw)
}

func (d *differ) walk(path string, from, to any) {
	if reflect.DeepEqual(from, to) {
		return
	}
	if a, ok := from.(map[string]any); ok {
		if b, ok := to.(map[string]any); ok {
			d.maps(path, a, b)
			return
		}
	}
	if a, ok := from.([]any); ok {
		if b, ok := to.([]any); ok {
			d.lists(path, a, b)
			return
		}
	}
	d.add(path, from, to)
}

func (d *differ) maps(path string, a, b map[string]any) {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		d.walk(join(path, k), a[k], b[k])
	}
}

// lists compares by name where all items have one, as people think of containers, ports and versions; else by place.
func (d *differ) lists(path string, a, b []any) {
	byName, okA := named(a)
	byNameB, okB := named(b)
	if okA && okB && len(a)+len(b) > 0 {
		found := len(d.found)
		d.maps(path, byName, byNameB)
		if len(d.found) == found {
			d.add(path, a, b)
			d.found[found] = path + ": another order"
		}
		return
	}
	for i := range max(len(a), len(b)) {
		d.walk(fmt.Sprintf("%s[%d]", path, i), at(a, i), at(b, i))
	}
}

func named(items []any) (map[string]any, bool) {
	out := make(map[string]any, len(items))
	for _, item := range items {
		m, _ := item.(map[string]any)
		name, ok := m["name"].(string)
		if _, double := out["["+name+"]"]; !ok || double {
			return nil, false
		}
		out["["+name+"]"] = item
	}
	return out, true
}

func at(items []any, i int) any {
	if i < len(items) {
		return items[i]
	}
	return nil
}

func join(path, key string) string {
	switch {
	case strings.HasPrefix(key, "["):
		return path + key
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func (d *differ) line(path string, from, to any) string {
	switch {
	case d.hideValues:
		return path + " differs"
	case from == nil:
		return fmt.Sprintf("%s: add %s", path, value(to))
	case to == nil:
		return fmt.Sprintf("%s: remove %s", path, value(from))
	}
	return fmt.Sprintf("%s: %s to %s", path, value(from), value(to))
}

func value(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(raw) > driftValue {
		return strings.ToValidUTF8(string(raw[:driftValue]), "") + "…"
	}
	return string(raw)
}

// leftOver returns the installers that still own fields of an object, sorted. An apply leaves such a field alive when the
// manifest no longer has it, so an object is not at its target before the fields are Capstan's.
func leftOver(managed []metav1.ManagedFieldsEntry) []string {
	var found []string
	for _, e := range managed {
		if e.Subresource == "" && world.ManagerOf(e.Manager, e.Operation) == world.ManagerInstaller && !slices.Contains(found, e.Manager) {
			found = append(found, e.Manager)
		}
	}
	slices.Sort(found)
	return found
}
