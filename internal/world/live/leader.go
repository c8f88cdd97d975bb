// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/world"
)

// lead adds to the health of rolled-out Deployments whether one of their Pods leads. A Pod that is ready but waits for the
// lease of one that has just gone controls nothing yet, so calling the component done would be a false success.
func (r *round) lead(ctx context.Context, members []*task, objects []world.Object) error {
	return forEach(len(objects), r.parallel, func(i int) error {
		h := objects[i].Health
		if h == nil || !h.OK || members[i].live == nil || objects[i].Ref.Kind != "Deployment" {
			return nil
		}
		led := *h
		objects[i].Health = &led
		return r.leadership(ctx, members[i].live, &led)
	})
}

func (r *round) leadership(ctx context.Context, live *unstructured.Unstructured, h *world.Health) error {
	e := world.ElectionOf(live)
	w, err := workloadOf(live)
	if err != nil || w == nil || w.rollout.desired == 0 || e.Off() || (!e.On() && e.Namespace == "") {
		return err
	}
	if w.pods, err = r.podsOf(ctx, w); err != nil {
		return fault(ctx, "list the Pods of "+w.ref.String(), err)
	}
	namespace := cmp.Or(e.Namespace, w.ref.Namespace)
	leases, err := typedList[coordinationv1.Lease](ctx, r.clients.dynamic.Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace(namespace), metav1.ListOptions{})
	if err != nil {
		return fault(ctx, "list the leases of "+w.ref.String(), err)
	}
	wait, dead := awaitsLeader(w.ref, w.pods, leases)
	if wait == "" {
		return nil
	}
	h.OK, h.Message = false, w.ref.String()+": "+wait
	if dead == nil || !allReady(r.nodes) {
		return nil
	}
	gone, err := r.podGone(ctx, w.ref.Namespace, podOf(w.ref.Name).FindString(*dead.Spec.HolderIdentity))
	if err != nil || !gone {
		return err
	}
	h.Handover = &world.Handover{
		Lease:           world.Ref{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: dead.Namespace, Name: dead.Name},
		ResourceVersion: dead.ResourceVersion, Holder: *dead.Spec.HolderIdentity,
	}
	return nil
}

// allReady tells that every kubelet reports: only then does a missing Pod object mean that its containers ended.
func allReady(nodes []world.Node) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n world.Node) bool { return !n.Ready })
}

// podGone asks for the Pod itself: the kubelet lets its object go only after the containers have ended.
func (r *round) podGone(ctx context.Context, namespace, name string) (bool, error) {
	_, err := r.pods(namespace).Get(ctx, strings.TrimRight(name, "_-"), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fault(ctx, "read Pod "+namespace+"/"+name, err)
	}
	return false, nil
}

// awaitsLeader says what a Deployment's Pods wait for before one of them leads, empty if one does, and which lease is held
// by a Pod that is not among them. A lease is the Deployment's own when its holder is called like one of its Pods: that is
// what client-go's leader election writes, and the lease's name is known to the program alone. A free lease counts only in
// the Deployment's own namespace: elsewhere it may be anybody's. Where no lease is the Deployment's or free, there is
// nothing to wait for.
func awaitsLeader(deployment world.Ref, pods []*corev1.Pod, leases []*coordinationv1.Lease) (string, *coordinationv1.Lease) {
	wait := ""
	var stale *coordinationv1.Lease
	for _, l := range leases {
		holder := ptr.Deref(l.Spec.HolderIdentity, "")
		switch {
		case slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && strings.HasPrefix(holder, p.Name) }):
			return "", nil
		case holder == "" && wait == "" && l.Namespace == deployment.Namespace:
			wait = fmt.Sprintf("none of its Pods leads yet, Lease %s/%s is free", l.Namespace, l.Name)
		case podOf(deployment.Name).MatchString(holder):
			wait = fmt.Sprintf("none of its Pods leads yet, Lease %s/%s is still held by %s", l.Namespace, l.Name, holder)
			stale = l
		}
	}
	return wait, stale
}

// podOf matches the names of a Deployment's Pods at the start of a holder's identity. Kubernetes makes the hash and the
// random end of the letters in this class (k8s.io/apimachinery/pkg/util/rand).
func podOf(deployment string) *regexp.Regexp {
	const letters = "[bcdfghjklmnpqrstvwxz2456789]"
	return regexp.MustCompile("^" + regexp.QuoteMeta(deployment) + "-" + letters + "{1,10}-" + letters + "{5}(_|-|$)")
}
