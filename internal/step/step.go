// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package step says what a step is: something that can tell from the world how far it is, and that can be started or
// continued by one change at a time. The steps themselves live below it; nothing here talks to a cluster.
package step

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// Step is one step of a plan. The set of steps of a plan is fixed; their state is not stored anywhere, it is read from
// the world each time.
type Step interface {
	// ID is stable over processes and versions of Capstan: "swap/cluster-api/v1.14.2".
	ID() string
	// Component is the component of the release that the step belongs to.
	Component() string
	// Summary is one imperative line for people.
	Summary() string
	// Needs are the IDs of the steps that must be done first.
	Needs() []string
	// Progress tells how far the step is. It is pure, and it is the only judge of done.
	Progress(w *world.World) Progress
	// Apply starts or continues the step. It may be called any number of times, makes only changes that are missing in
	// w, and never waits for an effect.
	Apply(ctx context.Context, w *world.World, a Actuator) error
}

// Watcher is implemented by steps that need objects observed.
type Watcher interface {
	// Want is what has to be in the world for Progress and Apply to tell the truth.
	Want() world.Want
}

// Cleaner is implemented by steps that leave the cluster in order when a run is ended before its plan is.
type Cleaner interface {
	Watcher
	// Clean tells what is left to do for that: Pending if Sweep has something to change, Done if nothing is left. It is pure.
	Clean(w *world.World) Progress
	// Sweep makes the changes. Like Apply it may be called any number of times and never waits.
	Sweep(ctx context.Context, w *world.World, a Actuator) error
}

// State is how far a step is.
//
//	Pending --Apply--> Waiting --world moves--> Done
//	   ^                  |
//	   +---drift, next----+   (a step may ask for several Apply calls, one after the other)
type State string

const (
	// Pending means that Apply has something to change now.
	Pending State = "Pending"
	// Waiting means that everything is asked for and the cluster has yet to follow.
	Waiting State = "Waiting"
	// Done means that the world is at the step's target.
	Done State = "Done"
)

// Progress is how far a step is and what it waits for.
type Progress struct {
	State State
	// Detail is one line: what was found or what is being waited for, naming the object.
	Detail string
	// Mark changes whenever the world moves; equal marks for longer than the stall limit mean that it stands still.
	Mark string
	// Causes name what stands in the way.
	Causes []world.Cause
}

// Actuator makes changes. A dry run, a fault injection and a recording are other Actuators.
type Actuator interface {
	// Apply makes the object what it says, by server-side apply with Capstan's field owner.
	Apply(ctx context.Context, obj *unstructured.Unstructured) error
	// Patch makes a change of few fields by JSON merge patch, guarded by the resource version if the patch carries one.
	Patch(ctx context.Context, ref world.Ref, patch []byte) error
	// PatchAll makes changes that don't depend on each other, several at a time. An object that is gone needs no change; the
	// error of one does not keep the others of its group from being made.
	PatchAll(ctx context.Context, changes []Change) error
	// Delete removes an object; a missing one is no error.
	Delete(ctx context.Context, ref world.Ref, how Deletion) error
}

// Concurrent is an Actuator whose methods may be called at once.
type Concurrent interface {
	Actuator
	// Concurrent does nothing.
	Concurrent()
}

// applyTogether is how many objects ApplyAll applies at once: enough to hide the way to the API server, few enough that it
// has time for others.
const applyTogether = 4

// ApplyAll applies objects that don't depend on each other: some at once if the Actuator can, else one by one in their
// order. All that were begun have ended when it returns; after a failure no more are begun. It returns the first failure.
func ApplyAll(ctx context.Context, a Actuator, objs []*unstructured.Unstructured) error {
	limit := 1
	if _, ok := a.(Concurrent); ok {
		limit = applyTogether
	}
	errs := make([]error, len(objs))
	var failed atomic.Bool
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for i, obj := range objs {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = a.Apply(ctx, obj); errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Together is how many changes of PatchAll are made at once.
const Together = 8

// Change is one of many patches.
type Change struct {
	Ref world.Ref
	// Subresource is "status", or empty for the object itself.
	Subresource string
	// Patch is a JSON merge patch, or a JSON patch if JSON is set.
	Patch []byte
	JSON  bool
}

// Deletion says what becomes of the objects that the deleted one owns.
type Deletion string

const (
	// Cascade deletes them too, in the background.
	Cascade Deletion = "Cascade"
	// Orphan leaves them.
	Orphan Deletion = "Orphan"
)
