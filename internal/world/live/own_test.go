// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestOwnKeyMovesWhenAFieldIsTaken(t *testing.T) {
	t.Parallel()
	entry := func(manager string, op metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: op, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	apply, update := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	own := entry(v1alpha1.FieldOwner, apply, `{"f:data":{"f:a":{},"f:b":{}}}`)
	object := func(entries ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		u.SetUID("one")
		u.SetManagedFields(entries)
		return u
	}
	before := ownKey(object(own))
	if before == "" {
		t.Fatal("an applied object has no key")
	}
	another := object(own)
	another.SetUID("two")
	for name, tc := range map[string]struct {
		now  *unstructured.Unstructured
		same bool
	}{
		"a controller adds a field":           {now: object(own, entry("cainjector", apply, `{"f:data":{"f:c":{}}}`)), same: true},
		"a controller writes the status":      {now: object(own, entry("kube-controller-manager", update, `{"f:status":{}}`)), same: true},
		"somebody changes a field of ours":    {now: object(entry(v1alpha1.FieldOwner, apply, `{"f:data":{"f:a":{}}}`), entry("kubectl-edit", update, `{"f:data":{"f:b":{}}}`))},
		"clusterctl applies the old manifest": {now: object(own, entry("clusterctl", update, `{"f:data":{"f:a":{}}}`))},
		"it is another object":                {now: another},
		"nothing of it was applied":           {now: object(entry("kubectl-edit", update, `{"f:data":{"f:b":{}}}`))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ownKey(tc.now) == before; got != tc.same {
				t.Errorf("the key is the same: %t, want %t", got, tc.same)
			}
		})
	}
}
