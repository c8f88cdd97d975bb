// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// held makes sure before each change that this process still has the lock. A tick holds it when it begins, but to observe
// a large cluster and to apply a hundred objects may take longer than the lock lasts when the API server is slow; by then
// another process may drive the run. While the lock is young this costs nothing.
type held struct {
	actuator step.Actuator
	lock     Lock
	// renewing makes the lock be renewed once where several changes are made at once.
	renewing *sync.Mutex
}

var _ step.Actuator = held{}

// guard returns an actuator that holds the lock, and may be called at once if a may.
func guard(a step.Actuator, lock Lock) step.Actuator {
	h := held{actuator: a, lock: lock, renewing: &sync.Mutex{}}
	if _, ok := a.(step.Concurrent); ok {
		return heldConcurrent{h}
	}
	return h
}

// heldConcurrent is held for an actuator that may be called at once.
type heldConcurrent struct{ held }

// Concurrent marks it.
func (heldConcurrent) Concurrent() {}

// Apply applies the object if the lock is held.
func (h held) Apply(ctx context.Context, obj *unstructured.Unstructured) error {
	if err := h.hold(ctx); err != nil {
		return err
	}
	return h.actuator.Apply(ctx, obj)
}

// Patch patches the object if the lock is held.
func (h held) Patch(ctx context.Context, ref world.Ref, patch []byte) error {
	if err := h.hold(ctx); err != nil {
		return err
	}
	return h.actuator.Patch(ctx, ref, patch)
}

// PatchAll makes changes in small groups, each only if the lock is held.
func (h held) PatchAll(ctx context.Context, changes []step.Change) error {
	for group := range slices.Chunk(changes, step.Together) {
		if err := h.hold(ctx); err != nil {
			return err
		}
		if err := h.actuator.PatchAll(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes the object if the lock is held.
func (h held) Delete(ctx context.Context, ref world.Ref, how step.Deletion) error {
	if err := h.hold(ctx); err != nil {
		return err
	}
	return h.actuator.Delete(ctx, ref, how)
}

func (h held) hold(ctx context.Context) error {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	if err := h.lock.Hold(ctx); err != nil {
		return fmt.Errorf("hold the lock: %w", err)
	}
	return nil
}
