// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// Call is one change that was asked for.
type Call struct {
	// Verb is "apply", "patch" or "delete".
	Verb string
	// Ref is the object.
	Ref world.Ref
	// Object is a copy of what was to be applied.
	Object *unstructured.Unstructured
	// Patch is the patch.
	Patch string
	// How is what was to become of owned objects.
	How step.Deletion
}

// String returns the verb and the object.
func (c Call) String() string { return c.Verb + " " + c.Ref.String() }

// Recorder records changes and passes them on. It implements step.Actuator.
type Recorder struct {
	// Next makes the changes; nil means that nobody does.
	Next step.Actuator

	mu    sync.Mutex
	calls []Call
}

var _ step.Actuator = (*Recorder)(nil)

// Calls returns what was asked for so far, in order.
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Call(nil), r.calls...)
}

func (r *Recorder) add(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// Apply records and passes on.
func (r *Recorder) Apply(ctx context.Context, obj *unstructured.Unstructured) error {
	r.add(Call{Verb: "apply", Ref: world.RefOf(obj), Object: obj.DeepCopy()})
	if r.Next == nil {
		return nil
	}
	return r.Next.Apply(ctx, obj)
}

// Patch records and passes on.
func (r *Recorder) Patch(ctx context.Context, ref world.Ref, patch []byte) error {
	r.add(Call{Verb: "patch", Ref: ref, Patch: string(patch)})
	if r.Next == nil {
		return nil
	}
	return r.Next.Patch(ctx, ref, patch)
}

// PatchAll records and passes on.
func (r *Recorder) PatchAll(ctx context.Context, changes []step.Change) error {
	for _, c := range changes {
		r.add(Call{Verb: "patch", Ref: c.Ref, Patch: string(c.Patch)})
	}
	if r.Next == nil {
		return nil
	}
	return r.Next.PatchAll(ctx, changes)
}

// Delete records and passes on.
func (r *Recorder) Delete(ctx context.Context, ref world.Ref, how step.Deletion) error {
	r.add(Call{Verb: "delete", Ref: ref, How: how})
	if r.Next == nil {
		return nil
	}
	return r.Next.Delete(ctx, ref, how)
}

// ErrCrash is what Faulty answers from its fault on.
var ErrCrash = errors.New("crashed on purpose")

// Moment is when Faulty fails, as seen from the write.
type Moment string

const (
	// Before means that the write is not made.
	Before Moment = "Before"
	// After means that the write is made and its answer is lost.
	After Moment = "After"
)

// Faulty behaves like a process that dies at its n-th write: that one fails before or after it is made, and all later
// ones fail before. It implements step.Actuator.
type Faulty struct {
	// Next makes the changes.
	Next step.Actuator
	// At is the number of the write that fails, from 1; 0 means that none does.
	At int
	// When tells whether that write is made.
	When Moment

	mu     sync.Mutex
	writes int
}

var _ step.Actuator = (*Faulty)(nil)

// Writes returns how many writes were asked for, the failed ones included: run once with At 0 to learn the matrix's size.
func (f *Faulty) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Apply passes on, unless it is time to fail.
func (f *Faulty) Apply(ctx context.Context, obj *unstructured.Unstructured) error {
	return f.do(func() error { return f.Next.Apply(ctx, obj) })
}

// Patch passes on, unless it is time to fail.
func (f *Faulty) Patch(ctx context.Context, ref world.Ref, patch []byte) error {
	return f.do(func() error { return f.Next.Patch(ctx, ref, patch) })
}

// PatchAll passes on one by one, until it is time to fail.
func (f *Faulty) PatchAll(ctx context.Context, changes []step.Change) error {
	for _, c := range changes {
		if err := f.do(func() error { return f.Next.PatchAll(ctx, []step.Change{c}) }); err != nil {
			return err
		}
	}
	return nil
}

// Delete passes on, unless it is time to fail.
func (f *Faulty) Delete(ctx context.Context, ref world.Ref, how step.Deletion) error {
	return f.do(func() error { return f.Next.Delete(ctx, ref, how) })
}

func (f *Faulty) do(write func() error) error {
	f.mu.Lock()
	f.writes++
	n := f.writes
	f.mu.Unlock()
	switch {
	case f.At == 0 || n < f.At:
		return write()
	case n == f.At && f.When == After:
		return errors.Join(ErrCrash, write())
	}
	return ErrCrash
}
