// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/ownership"
	"github.com/capstan-dev/capstan/internal/world"
)

// takeOver moves the fields that installers own to Capstan, so that the apply after it removes those it has not. It is a
// write of its own: a crash between the two leaves the content as it was, owned by Capstan, and the next apply goes on.
func (l *Live) takeOver(ctx context.Context, ri dynamic.ResourceInterface, p *prepared) error {
	patch, err := takeoverPatch(p.live)
	if err != nil || patch == nil {
		return err
	}
	opts := metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner}
	after, err := ri.Patch(ctx, p.live.GetName(), types.JSONPatchType, patch, opts)
	if err != nil {
		return err
	}
	if p.wanted.GetResourceVersion() != "" {
		p.wanted.SetResourceVersion(after.GetResourceVersion())
	}
	return nil
}

// clear takes parts away that would stay behind and make the object invalid. A crash after it leaves the object valid,
// without what the next apply would not have had either.
func (l *Live) clear(ctx context.Context, ri dynamic.ResourceInterface, p *prepared) error {
	if p.live == nil {
		return nil
	}
	remnants, err := ownership.RemnantsOf(p.live, p.wanted)
	if err != nil || remnants == nil {
		return err
	}
	after, err := ri.Patch(ctx, p.live.GetName(), types.JSONPatchType, remnants.Patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner})
	if err != nil {
		return err
	}
	p.live = after
	if p.wanted.GetResourceVersion() != "" {
		p.wanted.SetResourceVersion(after.GetResourceVersion())
	}
	return nil
}

// takeoverPatch returns the JSON patch that moves installers' fields to Capstan, guarded by the resource version; nil if
// there is nothing to move. An installer that used two API versions of one object is moved with the fields of the more
// recent one; the paths of the other may mean something else and are given up, not moved.
func takeoverPatch(live *unstructured.Unstructured) ([]byte, error) {
	if live == nil || !hasInstaller(live) {
		return nil, nil
	}
	moved := live.DeepCopy()
	// One by one and in a fixed order: the first that is found lends the entry its API version.
	for _, name := range world.Installers() {
		if err := csaupgrade.UpgradeManagedFields(moved, sets.New(name), v1alpha1.FieldOwner); err != nil {
			return nil, fmt.Errorf("take over the fields of %s: %w", name, err)
		}
	}
	return json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": moved.GetManagedFields()},
		// Not "test": the store then answers with a conflict instead of an invalid request.
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
}

func hasInstaller(obj *unstructured.Unstructured) bool {
	for _, e := range obj.GetManagedFields() {
		if e.Subresource == "" && world.ManagerOf(e.Manager, e.Operation) == world.ManagerInstaller {
			return true
		}
	}
	return false
}
