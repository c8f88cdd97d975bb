// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
)

// podsAnswer are the Pods of a workload, or why they are not known.
type podsAnswer struct {
	pods []*corev1.Pod
	err  error
}

// podsOf returns the Pods that a workload selects, oldest first. They are read once in a round.
func (r *round) podsOf(ctx context.Context, w *workloadState) ([]*corev1.Pod, error) {
	a := r.selected.get(w.ref.String(), func() podsAnswer {
		pods, err := r.readPodsOf(ctx, w)
		return podsAnswer{pods: pods, err: err}
	})
	return a.pods, a.err
}

func (r *round) readPodsOf(ctx context.Context, w *workloadState) ([]*corev1.Pod, error) {
	if w.selector == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return nil, fmt.Errorf("read selector: %w", err)
	}
	pods, err := typedList[corev1.Pod](ctx, r.pods(w.ref.Namespace), metav1.ListOptions{LabelSelector: selector.String()})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, err
}

func (r *round) replicaSetsOf(ctx context.Context, w *workloadState) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return nil, fmt.Errorf("read selector: %w", err)
	}
	from := r.clients.dynamic.Resource(appsv1.SchemeGroupVersion.WithResource("replicasets")).Namespace(w.ref.Namespace)
	all, err := typedList[appsv1.ReplicaSet](ctx, from, metav1.ListOptions{LabelSelector: selector.String()})
	return slices.DeleteFunc(all, func(rs *appsv1.ReplicaSet) bool { return !controlledBy(rs, w.uid) }), err
}

func (r *round) eventsOf(ctx context.Context, p *corev1.Pod) ([]corev1.Event, error) {
	from := r.clients.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(p.Namespace)
	events, err := typedList[corev1.Event](ctx, from, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(p.UID)).String(),
	})
	var out []corev1.Event
	for _, e := range events {
		out = append(out, *e)
	}
	return out, err
}

// podsOfDeployment returns the Pods that a Deployment of this name made and that may still run. It needs neither the
// Deployment nor its ReplicaSets: both may be gone before the Pods are.
func (r *round) podsOfDeployment(ctx context.Context, namespace, name string) ([]string, error) {
	pods, err := typedList[corev1.Pod](ctx, r.pods(namespace), metav1.ListOptions{LabelSelector: appsv1.DefaultDeploymentUniqueLabelKey})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods {
		if madeByDeployment(p, name) && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// madeByDeployment tells whether a Pod goes back to a Deployment of this name: its ReplicaSet is called after the
// Deployment and the hash of the template.
func madeByDeployment(p *corev1.Pod, name string) bool {
	c := metav1.GetControllerOf(p)
	return c != nil && c.Kind == "ReplicaSet" && c.Name == name+"-"+p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
}

func (r *round) pods(namespace string) dynamic.ResourceInterface {
	return r.clients.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
}
