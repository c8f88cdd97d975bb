// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/ownership"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// Outcome is what a change would do.
type Outcome string

const (
	// Created means that the object is not there and would be made.
	Created Outcome = "Created"
	// Changed means that the object would change.
	Changed Outcome = "Changed"
	// Unchanged means that nothing would happen.
	Unchanged Outcome = "Unchanged"
	// Deleted means that the object would go.
	Deleted Outcome = "Deleted"
	// Refused means that the API server says no.
	Refused Outcome = "Refused"
	// Unchecked means that the API server can't tell yet, because the kind, the namespace or the patched object is not there
	// yet, or the object is being deleted.
	Unchecked Outcome = "Unchecked"
)

// Result is what one change would do.
type Result struct {
	// Verb is "apply", "patch" or "delete".
	Verb string
	// Ref is the object.
	Ref world.Ref
	// Outcome is what would happen.
	Outcome Outcome
	// Detail is the first difference, or the server's words.
	Detail string
	// Immutable tells that it is refused because a field can't be changed in place.
	Immutable bool
	// Kept are the fields that stay as a person set them.
	Kept []ownership.Kept
	// After is the object as it would be; nil unless the server answered with one.
	After *unstructured.Unstructured
}

// DryRun asks the API server what changes would do, and makes none. It implements step.Actuator; its methods return an
// error only when the server could not be asked.
type DryRun struct {
	live *Live

	mu      sync.Mutex
	results []Result
}

var _ step.Actuator = (*DryRun)(nil)

// NewDryRun returns a dry run of what live would do, with the same respect for repairs by hand.
func NewDryRun(live *Live) *DryRun {
	quiet := *live
	quiet.Kept = nil
	return &DryRun{live: &quiet}
}

// Results returns what was found so far, in the order of the calls.
func (d *DryRun) Results() []Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Result(nil), d.results...)
}

// Apply records what an apply would do.
func (d *DryRun) Apply(ctx context.Context, obj *unstructured.Unstructured) error {
	_, err := d.Preview(ctx, obj)
	return err
}

// Preview records and returns what an apply would do, the takeover of an installer's fields included.
func (d *DryRun) Preview(ctx context.Context, obj *unstructured.Unstructured) (Result, error) {
	var r Result
	var err error
	for range attempts {
		if r, err = d.preview(ctx, obj); !apierrors.IsConflict(err) {
			break
		}
	}
	return d.record("apply", world.RefOf(obj), r, err)
}

func (d *DryRun) preview(ctx context.Context, obj *unstructured.Unstructured) (Result, error) {
	ri, p, err := d.live.prepare(ctx, obj)
	if err != nil {
		return Result{}, err
	}
	after, err := ri.Apply(ctx, obj.GetName(), p.wanted, applyOptions([]string{metav1.DryRunAll}))
	if err != nil {
		return Result{Kept: p.kept}, err
	}
	if p.live == nil {
		return Result{Outcome: Created, After: after}, nil
	}
	if after, err = d.withoutLeftovers(ctx, ri, after); err != nil {
		return Result{Kept: p.kept}, err
	}
	return Result{
		Outcome: changed(p.live, after), Detail: ownership.Difference(p.live, after), Kept: p.kept, After: after,
	}, nil
}

// withoutLeftovers asks for the object without what the takeover would remove. A dry run keeps nothing, so the takeover
// and the apply can't be tried one after the other: instead their sum is tried as an update.
func (d *DryRun) withoutLeftovers(
	ctx context.Context, ri dynamic.ResourceInterface, after *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	without, found, err := ownership.Leftovers(after)
	if err != nil || !found {
		return after, err
	}
	return ri.Update(ctx, without, metav1.UpdateOptions{FieldManager: v1alpha1.FieldOwner, DryRun: []string{metav1.DryRunAll}})
}

func changed(before, after *unstructured.Unstructured) Outcome {
	if ownership.Difference(before, after) == "" {
		return Unchanged
	}
	return Changed
}

// Patch records what a patch would do.
func (d *DryRun) Patch(ctx context.Context, ref world.Ref, patch []byte) error {
	r, err := d.previewPatch(ctx, ref, patch)
	_, err = d.record("patch", ref, r, err)
	return err
}

func (d *DryRun) previewPatch(ctx context.Context, ref world.Ref, patch []byte) (Result, error) {
	ri, err := d.live.resource(ref)
	if err != nil {
		return Result{}, err
	}
	live, err := ri.Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return Result{}, err
	}
	after, err := d.live.patch(ctx, ref, patch, []string{metav1.DryRunAll})
	if err != nil {
		return Result{}, err
	}
	return Result{Outcome: changed(live, after), Detail: ownership.Difference(live, after), After: after}, nil
}

// Delete records what a deletion would do.
func (d *DryRun) Delete(ctx context.Context, ref world.Ref, how step.Deletion) error {
	r, err := d.previewDelete(ctx, ref, how)
	_, err = d.record("delete", ref, r, err)
	return err
}

func (d *DryRun) previewDelete(ctx context.Context, ref world.Ref, how step.Deletion) (Result, error) {
	ri, err := d.live.resource(ref)
	if apimeta.IsNoMatchError(err) {
		return Result{Outcome: Unchanged}, nil
	}
	if err != nil {
		return Result{}, err
	}
	opts := deleteOptions("", how)
	opts.DryRun = []string{metav1.DryRunAll}
	err = ri.Delete(ctx, ref.Name, opts)
	if apierrors.IsNotFound(err) {
		return Result{Outcome: Unchanged}, nil
	}
	return Result{Outcome: Deleted}, err
}

// record files the result, or turns the error into one where the server has given an answer.
func (d *DryRun) record(verb string, ref world.Ref, r Result, err error) (Result, error) {
	r.Verb, r.Ref = verb, ref
	if err = classify(verb, ref, err); err != nil {
		e, ok := errors.AsType[*Error](err)
		switch {
		case ok && errors.Is(err, ErrRefused):
			r.Outcome, r.Detail, r.Immutable = Refused, e.Err.Error(), Immutable(err)
		case ok && (apimeta.IsNoMatchError(e.Err) || apierrors.IsNotFound(e.Err) || errors.Is(err, errTerminating)):
			r.Outcome, r.Detail = Unchecked, e.Err.Error()
		default:
			return Result{}, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results = append(d.results, r)
	return r, nil
}
