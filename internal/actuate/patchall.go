// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
)

// PatchAll makes the changes, up to step.Together at once. All are tried; the first error in their order is returned.
func (l *Live) PatchAll(ctx context.Context, changes []step.Change) error {
	errs := make([]error, len(changes))
	slots := make(chan struct{}, step.Together)
	var wg sync.WaitGroup
	for i, c := range changes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = l.change(ctx, c)
			if l.Patched != nil {
				l.Patched(c.Ref, errs[i])
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

func (l *Live) change(ctx context.Context, c step.Change) error {
	_, err := l.send(ctx, c, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return classify("patch", c.Ref, err)
}

func (l *Live) send(ctx context.Context, c step.Change, dryRun []string) (*unstructured.Unstructured, error) {
	ri, err := l.resource(c.Ref)
	if err != nil {
		return nil, err
	}
	how := types.MergePatchType
	if c.JSON {
		how = types.JSONPatchType
	}
	var subresources []string
	if c.Subresource != "" {
		subresources = []string{c.Subresource}
	}
	return ri.Patch(ctx, c.Ref.Name, how, c.Patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner, DryRun: dryRun}, subresources...)
}

// PatchAll records what the changes would do.
func (d *DryRun) PatchAll(ctx context.Context, changes []step.Change) error {
	for _, c := range changes {
		r := Result{Outcome: Changed}
		after, err := d.live.send(ctx, c, []string{metav1.DryRunAll})
		if err == nil {
			r.After = after
		}
		if _, err = d.record("patch", c.Ref, r, err); err != nil {
			return err
		}
	}
	return nil
}
