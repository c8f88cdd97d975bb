// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package step_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/step"
)

var errRefused = errors.New("refused")

// applier records what is applied, and refuses one name.
type applier struct {
	step.Actuator

	refuse string

	mu      sync.Mutex
	applied []string
}

func (a *applier) Apply(_ context.Context, obj *unstructured.Unstructured) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if obj.GetName() == a.refuse {
		return fmt.Errorf("%s: %w", obj.GetName(), errRefused)
	}
	a.applied = append(a.applied, obj.GetName())
	return nil
}

// many is an applier that may be called at once.
type many struct{ *applier }

func (many) Concurrent() {}

func objects(n int) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, n)
	for i := range out {
		out[i] = &unstructured.Unstructured{}
		out[i].SetName(fmt.Sprintf("o%02d", i))
	}
	return out
}

func TestApplyAllKeepsTheOrderAndStopsAtAFailure(t *testing.T) {
	t.Parallel()
	a := &applier{refuse: "o02"}
	if err := step.ApplyAll(t.Context(), a, objects(5)); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the refusal", err)
	}
	if diff := cmp.Diff([]string{"o00", "o01"}, a.applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

func TestApplyAllAtOnceAppliesEachObjectOnce(t *testing.T) {
	t.Parallel()
	a := &applier{}
	if err := step.ApplyAll(t.Context(), many{a}, objects(30)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, name := range a.applied {
		seen[name]++
	}
	want := map[string]int{}
	for _, o := range objects(30) {
		want[o.GetName()] = 1
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

func TestApplyAllAtOnceTellsTheFailure(t *testing.T) {
	t.Parallel()
	a := &applier{refuse: "o03"}
	if err := step.ApplyAll(t.Context(), many{a}, objects(4)); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the refusal", err)
	}
	if len(a.applied) > 3 {
		t.Errorf("applied %v beside the one that was refused", a.applied)
	}
}
