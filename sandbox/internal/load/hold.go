// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
)

const (
	// providerLabel is on everything that belongs to a provider, its namespace included.
	providerLabel = "cluster.x-k8s.io/provider"
	// holder is who has the leases meanwhile.
	holder = "sandbox-load"
	// holdFor is how long a lease lasts after the last renewal: a load that was killed holds nobody back for longer.
	holdFor = time.Minute
	// renewEvery is how often leases are renewed.
	renewEvery = 15 * time.Second
	// holdLimit is how long managers may take to end and to be back.
	holdLimit = 2 * time.Minute
	// freeLimit bounds what is done after an interrupt.
	freeLimit = 20 * time.Second
)

func leases() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
}

func pods() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// Hold keeps the controllers of providers from leading, so that they don't reconcile what is being written: it takes their
// leases and deletes their Pods, and new ones come as followers. Followers answer webhooks, and watch nothing. That makes a
// load more than twice as fast. Call the returned function to let them lead again; it does so also after ctx has ended.
func Hold(ctx context.Context, client dynamic.Interface, c clock.WithTicker) (free func() error, err error) {
	h := &hold{client: client, clock: c}
	if err := h.find(ctx); err != nil {
		return nil, err
	}
	renewing, stop := context.WithCancel(ctx)
	var renewed sync.WaitGroup
	free = func() error {
		stop()
		renewed.Wait()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeLimit)
		defer cancel()
		return h.each(func(l *lease) error { return h.patch(ending, l, "", holdFor) })
	}
	if err := h.each(func(l *lease) error { return h.patch(ctx, l, holder, holdFor) }); err != nil {
		return nil, errors.Join(err, free())
	}
	renewed.Go(func() { h.renew(renewing) })
	err = h.each(func(l *lease) error { return h.end(ctx, l) })
	if err == nil {
		err = h.awaitFollowers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, free())
	}
	return free, nil
}

// hold is the leases of all providers.
type hold struct {
	client dynamic.Interface
	clock  clock.WithTicker
	leases []*lease
}

// lease is one lease that a Pod had.
type lease struct {
	namespace, name string
	// pod is the Pod's name; empty if an earlier load took the lease from it.
	pod string
}

// find looks for the leases of providers that a Pod holds.
func (h *hold) find(ctx context.Context) error {
	namespaces, err := h.client.Resource(namespaceItems()[0].resource.gvr).List(ctx, metav1.ListOptions{LabelSelector: providerLabel})
	if err != nil {
		return fmt.Errorf("list the namespaces of providers: %w", err)
	}
	for i := range namespaces.Items {
		ns := namespaces.Items[i].GetName()
		list, err := h.client.Resource(leases()).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list leases: %w", err)
		}
		for j := range list.Items {
			identity, _, _ := unstructured.NestedString(list.Items[j].Object, "spec", "holderIdentity") // one without is free
			// controller-runtime's identity is the name of the Pod, "_" and a random part.
			pod, _, ofPod := strings.Cut(identity, "_")
			switch {
			case ofPod:
				h.leases = append(h.leases, &lease{namespace: ns, name: list.Items[j].GetName(), pod: pod})
			case identity == holder:
				h.leases = append(h.leases, &lease{namespace: ns, name: list.Items[j].GetName()})
			}
		}
	}
	return nil
}

// end deletes the Pod that led.
func (h *hold) end(ctx context.Context, l *lease) error {
	if l.pod == "" {
		return nil
	}
	err := h.client.Resource(pods()).Namespace(l.namespace).Delete(ctx, l.pod, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Pod %s/%s: %w", l.namespace, l.pod, err)
	}
	return nil
}

// replaced tells whether a lease's Pod is gone and others are ready in its place.
func (h *hold) replaced(ctx context.Context, l *lease) (bool, error) {
	list, err := h.client.Resource(pods()).Namespace(l.namespace).List(ctx, metav1.ListOptions{LabelSelector: providerLabel})
	if err != nil {
		return false, fmt.Errorf("list Pods: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].GetName() == l.pod || !isReady(&list.Items[i]) {
			return false, nil
		}
	}
	return len(list.Items) > 0, nil
}

func isReady(pod *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions") // none while it is new
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Ready" && m["status"] == "True"
	})
}

func (h *hold) each(do func(*lease) error) error {
	var all []error
	for _, l := range h.leases {
		all = append(all, do(l))
	}
	return errors.Join(all...)
}

func (h *hold) patch(ctx context.Context, l *lease, identity string, duration time.Duration) error {
	now := h.clock.Now().UTC().Format(metav1.RFC3339Micro)
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":%d,"acquireTime":%q,"renewTime":%q}}`, identity, int(duration.Seconds()), now, now)
	_, err := h.client.Resource(leases()).Namespace(l.namespace).Patch(ctx, l.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("write Lease %s/%s: %w", l.namespace, l.name, err)
	}
	return nil
}

// renew renews the leases until ctx ends. One that can't be renewed in time lasts long enough for the next try.
func (h *hold) renew(ctx context.Context) {
	tick := h.clock.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
			_ = h.each(func(l *lease) error { return h.patch(ctx, l, holder, holdFor) })
		}
	}
}

// awaitFollowers waits until every Pod that led is replaced.
func (h *hold) awaitFollowers(ctx context.Context) error {
	var waiting string
	err := wait.PollUntilContextTimeout(ctx, retryEvery, holdLimit, true, func(ctx context.Context) (bool, error) {
		for _, l := range h.leases {
			waiting = l.namespace + "/" + l.pod
			if done, err := h.replaced(ctx, l); err != nil || !done {
				return false, err
			}
		}
		return true, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("the Pod %s was not replaced by one that is ready within %s", waiting, holdLimit)
	}
	return err //nolint:wrapcheck // says what was read
}
