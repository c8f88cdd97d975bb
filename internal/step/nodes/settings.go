// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// null is a value that is absent, in a JSON merge patch and in a setting.
const null = "null"

// unset returns the settings that do not have their value of the roll yet. What is gone has none.
func (b *base) unset(seen *world.PoolState) []v1alpha1.RollSetting {
	var out []v1alpha1.RollSetting
	for i, s := range b.pool.Settings {
		if u := seen.Settings[i]; u != nil && !has(u, s.Path, s.During) {
			out = append(out, s)
		}
	}
	return out
}

// unrestored returns the settings that still have their value of the roll and that no later pool needs. One that somebody
// changed meanwhile is theirs.
func (b *base) unrestored(seen *world.PoolState) []v1alpha1.RollSetting {
	var out []v1alpha1.RollSetting
	for i, s := range b.pool.Settings {
		if u := seen.Settings[i]; u != nil && has(u, s.Path, s.During) && !equal(s.Before, s.During) && !b.shared(s) {
			out = append(out, s)
		}
	}
	return out
}

// shared tells that a later pool of the plan has the same setting.
func (b *base) shared(s v1alpha1.RollSetting) bool {
	return slices.ContainsFunc(b.later, func(p v1alpha1.PlannedPool) bool {
		return slices.ContainsFunc(p.Settings, func(o v1alpha1.RollSetting) bool { return o.Object == s.Object && slices.Equal(o.Path, s.Path) })
	})
}

// write sets fields, those of one object together: with one of them alone an object may not be valid.
func write(ctx context.Context, a step.Actuator, settings []v1alpha1.RollSetting, value func(v1alpha1.RollSetting) string) error {
	var order []v1alpha1.ObjectReference
	changes := map[v1alpha1.ObjectReference]map[string]any{}
	for _, s := range settings {
		if changes[s.Object] == nil {
			order, changes[s.Object] = append(order, s.Object), map[string]any{}
		}
		v := json.RawMessage(value(s))
		if len(v) == 0 {
			v = json.RawMessage(null)
		}
		put(changes[s.Object], s.Path, v)
	}
	for _, o := range order {
		patch, err := json.Marshal(changes[o])
		if err != nil {
			return fmt.Errorf("change the settings of %s: %w", world.Ref(o), err)
		}
		if err := a.Patch(ctx, world.Ref(o), patch); err != nil {
			return fmt.Errorf("change the settings of %s: %w", world.Ref(o), err)
		}
	}
	return nil
}

func during(s v1alpha1.RollSetting) string { return s.During }

func before(s v1alpha1.RollSetting) string { return s.Before }

// put sets a field in a tree of maps.
func put(m map[string]any, path []string, value any) {
	for _, p := range path[:len(path)-1] {
		below, ok := m[p].(map[string]any)
		if !ok {
			below = map[string]any{}
			m[p] = below
		}
		m = below
	}
	m[path[len(path)-1]] = value
}

// has tells whether a field has a value, given as JSON; empty and null are a field that is not there.
func has(u *unstructured.Unstructured, path []string, value string) bool {
	v, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil || !found || v == nil {
		return absent(value)
	}
	data, err := json.Marshal(v)
	return err == nil && equal(string(data), value)
}

func absent(value string) bool { return value == "" || value == null }

func equal(a, b string) bool {
	if absent(a) || absent(b) {
		return absent(a) && absent(b)
	}
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return reflect.DeepEqual(x, y)
}

// within tells whether every field of want is in have with the same value.
func within(want, have any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if !within(v, h[k]) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return false
		}
		for i := range w {
			if !within(w[i], h[i]) {
				return false
			}
		}
		return true
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(have)
	return errA == nil && errB == nil && string(a) == string(b)
}
