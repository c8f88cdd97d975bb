// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// base is what all controllers have.
type base struct {
	client     client.Client
	generation Generation
	clock      clock.PassiveClock
}

// get reads an object; nothing when it is not there.
func (b base) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	u := object(kind)
	if err := b.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, u); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return u, nil
}

// patch writes what change does to an object, all but its status. A version that somebody else has changed meanwhile is refused.
func (b base) patch(ctx context.Context, u *unstructured.Unstructured, change func()) error {
	before := u.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(before.Object, u.Object) {
		return nil
	}
	if err := b.client.Patch(ctx, u, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

// patchStatus writes what change does to an object's status.
func (b base) patchStatus(ctx context.Context, u *unstructured.Unstructured, change func() error) error {
	before := u.DeepCopy()
	if err := change(); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Object, u.Object) {
		return nil
	}
	if err := b.client.Status().Patch(ctx, u, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write status of %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

// setCondition sets one of an object's conditions.
func (b base) setCondition(u *unstructured.Unstructured, kind string, is metav1.ConditionStatus, reason, message string) error {
	conditions, err := conditionsOf(u)
	if err != nil {
		return err
	}
	if !apimeta.SetStatusCondition(&conditions, metav1.Condition{
		Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: u.GetGeneration(),
		LastTransitionTime: metav1.NewTime(b.clock.Now()),
	}) {
		return nil
	}
	list := make([]any, 0, len(conditions))
	for i := range conditions {
		c, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i])
		if err != nil {
			return fmt.Errorf("encode condition: %w", err)
		}
		list = append(list, c)
	}
	if err := unstructured.SetNestedSlice(u.Object, list, "status", "conditions"); err != nil {
		return fmt.Errorf("set condition: %w", err)
	}
	return nil
}

func conditionsOf(u *unstructured.Unstructured) ([]metav1.Condition, error) {
	var holder struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &holder); err != nil {
		return nil, fmt.Errorf("decode conditions of %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return holder.Status.Conditions, nil
}

// paused says whether an object is not to be touched, and notes that on it.
func (b base) paused(ctx context.Context, cluster *clusterv1.Cluster, u *unstructured.Unstructured) (bool, error) {
	_, annotated := u.GetAnnotations()[clusterv1.PausedAnnotation]
	is := annotated || cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
	status, reason := metav1.ConditionFalse, "NotPaused"
	if is {
		status, reason = metav1.ConditionTrue, "Paused"
	}
	return is, b.patchStatus(ctx, u, func() error { return b.setCondition(u, "Paused", status, reason, "") })
}

// cluster returns the Cluster an object belongs to by its label; nothing when it is not there.
func (b base) cluster(ctx context.Context, u *unstructured.Unstructured) (*clusterv1.Cluster, error) {
	name := u.GetLabels()[clusterv1.ClusterNameLabel]
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == "Cluster" {
			name = o.Name
		}
	}
	if name == "" {
		return nil, nil
	}
	cl := &clusterv1.Cluster{}
	if err := b.client.Get(ctx, types.NamespacedName{Namespace: u.GetNamespace(), Name: name}, cl); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get Cluster %s/%s: %w", u.GetNamespace(), name, err)
	}
	return cl, nil
}

// owner names the owner of a kind.
func owner(u client.Object, kind string) string {
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == kind {
			return o.Name
		}
	}
	return ""
}

// text reads a string field; a field of another type is as good as none.
func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

func flag(u *unstructured.Unstructured, path ...string) bool {
	v, _, _ := unstructured.NestedBool(u.Object, path...)
	return v
}

// set writes a field of an object that was read from an API server, where no parent can be anything but a map.
func set(u *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		panic(fmt.Sprintf("set %v: %v", path, err)) // a bug
	}
}
