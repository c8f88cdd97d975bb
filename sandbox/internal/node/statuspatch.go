// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// statusPatcher is a client whose status updates of Pods are patches, as the
// kubelet's are: an update would put labels and finalizers back to what the
// agent saw last, and fail whenever someone else was quicker.
type statusPatcher struct{ typedcorev1.PodsGetter }

// Pods returns the client for a namespace.
func (p statusPatcher) Pods(namespace string) typedcorev1.PodInterface {
	return podStatusPatcher{p.PodsGetter.Pods(namespace)}
}

type podStatusPatcher struct{ typedcorev1.PodInterface }

// UpdateStatus writes what differs from the status in the API, if anything. A
// Pod of the same name with another UID is not touched.
func (p podStatusPatcher) UpdateStatus(ctx context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	present, err := p.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if present.UID != pod.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	patch, err := statusPatch(present, pod.Status)
	if err != nil || patch == nil {
		return present, err
	}
	return p.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// statusPatch returns what turns the present status into the wanted one, nil if
// nothing does. Conditions and the QoS class of others are kept.
func statusPatch(present *corev1.Pod, want corev1.PodStatus) ([]byte, error) {
	want = *want.DeepCopy()
	if want.QOSClass == "" {
		want.QOSClass = present.Status.QOSClass
	}
	for _, c := range present.Status.Conditions {
		if !hasCondition(want.Conditions, c.Type) {
			want.Conditions = append(want.Conditions, c)
		}
	}
	before, err := json.Marshal(corev1.Pod{Status: present.Status})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	after, err := json.Marshal(corev1.Pod{Status: want})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("compare status: %w", err)
	}
	if string(patch) == "{}" {
		return nil, nil
	}
	return withUID(patch, present.UID)
}

func hasCondition(list []corev1.PodCondition, kind corev1.PodConditionType) bool {
	for _, c := range list {
		if c.Type == kind {
			return true
		}
	}
	return false
}

// withUID makes the patch fail for any other object.
func withUID(patch []byte, uid types.UID) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("decode patch: %w", err)
	}
	fields["metadata"] = map[string]any{"uid": uid}
	return json.Marshal(fields)
}
