// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// leadership adds to a rolled-out Deployment's health whether one of its Pods leads. A Pod that is ready but waits for the
// lease of one that has just gone controls nothing yet, so calling the swap done would be a false success.
func (r *round) leadership(ctx context.Context, live *unstructured.Unstructured, w *workloadState, h *world.Health) error {
	e := world.ElectionOf(live)
	if !h.OK || w.ref.Kind != "Deployment" || w.rollout.desired == 0 || e.Off() || (!e.On() && e.Namespace == "") {
		return nil
	}
	namespace := w.ref.Namespace
	if e.Namespace != "" {
		namespace = e.Namespace
	}
	leases, err := typedList[coordinationv1.Lease](ctx, r.clients.dynamic.Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace(namespace), metav1.ListOptions{})
	if err != nil {
		return fault(ctx, "list the leases of "+w.ref.String(), err)
	}
	if wait := awaitsLeader(w.ref, w.pods, leases); wait != "" {
		h.OK, h.Message = false, w.ref.String()+": "+wait
	}
	return nil
}

// awaitsLeader says what a Deployment's Pods wait for before one of them leads, empty if one does. A lease is the
// Deployment's own when its holder is called like one of its Pods: that is what client-go's leader election writes, and
// the lease's name is known to the program alone. A free lease counts only in the Deployment's own namespace: elsewhere it
// may be anybody's. Where no lease is the Deployment's or free, there is nothing to wait for.
func awaitsLeader(deployment world.Ref, pods []*corev1.Pod, leases []*coordinationv1.Lease) string {
	wait := ""
	for _, l := range leases {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		switch {
		case slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && strings.HasPrefix(holder, p.Name) }):
			return ""
		case holder == "" && wait == "" && l.Namespace == deployment.Namespace:
			wait = fmt.Sprintf("none of its Pods leads yet, Lease %s/%s is free", l.Namespace, l.Name)
		case podOf(deployment.Name).MatchString(holder):
			wait = fmt.Sprintf("none of its Pods leads yet, Lease %s/%s is still held by %s", l.Namespace, l.Name, holder)
		}
	}
	return wait
}

// podOf matches the names of a Deployment's Pods at the start of a holder's identity. Kubernetes makes the hash and the
// random end of the letters in this class (k8s.io/apimachinery/pkg/util/rand).
func podOf(deployment string) *regexp.Regexp {
	const letters = "[bcdfghjklmnpqrstvwxz2456789]"
	return regexp.MustCompile("^" + regexp.QuoteMeta(deployment) + "-" + letters + "{1,10}-" + letters + "{5}(_|-|$)")
}
