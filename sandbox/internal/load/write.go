// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

const (
	retryEvery = 500 * time.Millisecond
	// patience is how long an API server may refuse for reasons that pass: a webhook that is being started, a kind that is
	// not served yet.
	patience = time.Minute
	// establishLimit is how long the last CRDs may take to be served. Each new CRD makes the API server build its schemas anew.
	establishLimit = 5 * time.Minute
)

func (l *Loader) client(it *item) dynamic.ResourceInterface {
	if ns := it.object.GetNamespace(); ns != "" {
		return l.Client.Resource(it.resource.gvr).Namespace(ns)
	}
	return l.Client.Resource(it.resource.gvr)
}

// put creates an object with its status. One that is there already keeps its content.
func (l *Loader) put(ctx context.Context, it *item) error {
	if it.owner != nil {
		it.object.SetOwnerReferences([]metav1.OwnerReference{it.owner.reference(it.controls)})
	}
	var made *unstructured.Unstructured
	err := patiently(ctx, func(ctx context.Context) (err error) {
		made, err = l.client(it).Create(ctx, it.object, metav1.CreateOptions{})
		return err
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		if made, err = l.client(it).Get(ctx, it.object.GetName(), metav1.GetOptions{}); err != nil {
			return fmt.Errorf("read %s: %w", it, err)
		}
		l.present.Add(1)
	case err != nil:
		return fmt.Errorf("create %s: %w", it, err)
	default:
		l.created.Add(1)
	}
	it.uid = made.GetUID()
	return l.putStatus(ctx, it)
}

// putStatus merges the status, whoever wrote to it meanwhile.
func (l *Loader) putStatus(ctx context.Context, it *item) error {
	if it.status == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": it.status})
	if err != nil {
		return fmt.Errorf("encode the status of %s: %w", it, err)
	}
	err = patiently(ctx, func(ctx context.Context) error {
		_, err := l.client(it).Patch(ctx, it.object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", it, err)
	}
	return nil
}

// String names the object.
func (i *item) String() string {
	return strings.TrimPrefix(i.resource.kind+" "+strings.TrimPrefix(i.object.GetNamespace()+"/"+i.object.GetName(), "/"), " ")
}

func (i *item) reference(controls bool) metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: i.resource.gvr.GroupVersion().String(), Kind: i.resource.kind, Name: i.object.GetName(), UID: i.uid}
	if controls {
		r.Controller, r.BlockOwnerDeletion = &controls, &controls
	}
	return r
}

// patiently repeats what fails for a reason that passes.
func patiently(ctx context.Context, do func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, retryEvery, patience, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		if last == nil || !passes(last) {
			return true, last
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil && last != nil {
		return last
	}
	return err //nolint:wrapcheck // the caller knows what was done
}

// passes tells whether an error goes away by itself.
func passes(err error) bool {
	if _, answered := errors.AsType[*apierrors.StatusError](err); !answered {
		return true // nobody answered; what was asked for may be done or not, and is asked for again
	}
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err):
		return true
	case apierrors.IsInternalError(err):
		return strings.Contains(err.Error(), "failed calling webhook")
	case apierrors.IsNotFound(err):
		// A kind that was made a moment ago.
		return strings.Contains(err.Error(), "could not find the requested resource")
	}
	return false
}

// awaitEstablished waits until the API server serves the first n extra CRDs.
func (l *Loader) awaitEstablished(ctx context.Context, n int, p Progress) error {
	left := 0
	err := wait.PollUntilContextTimeout(ctx, retryEvery, establishLimit, true, func(ctx context.Context) (bool, error) {
		served, err := l.established(ctx)
		if err != nil {
			return false, err
		}
		left = 0
		for i := range n {
			if !served[extraCRD(i).item().object.GetName()] {
				left++
			}
		}
		p(n-left, n)
		return left == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("%d of %d CRDs are not served after %s", left, n, establishLimit)
	}
	return err //nolint:wrapcheck // says what was listed
}

func (l *Loader) established(ctx context.Context) (map[string]bool, error) {
	list, err := l.Client.Resource(crds().gvr).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + labelValue})
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	out := map[string]bool{}
	for i := range list.Items {
		all, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions") // none while it is new
		for _, c := range all {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				out[list.Items[i].GetName()] = true
			}
		}
	}
	return out, nil
}

// each calls do for 0 to n-1 in a number of workers until one fails, and returns the first error.
func each(ctx context.Context, n, workers int, do func(ctx context.Context, i int) error, p Progress) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		next int
		done int
	)
	take := func(finished bool) (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if finished {
			done++
			p(done, n)
		}
		if next == n || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range max(1, min(workers, n)) {
		wg.Go(func() {
			for i, more := take(false); more; i, more = take(true) {
				if err := do(ctx, i); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
