// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"

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
}

var _ step.Actuator = held{}

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
	if err := h.lock.Hold(ctx); err != nil {
		return fmt.Errorf("hold the lock: %w", err)
	}
	return nil
}
