// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/schema"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// storedKind is one kind whose CRD is to come and is there already.
type storedKind struct {
	world.StoredKind

	// next is the CRD to come; mapping is nil if no version of the live one is served.
	next    *unstructured.Unstructured
	mapping *apimeta.RESTMapping
	// byNext and byLive judge objects; they are made when they are needed first.
	byNext, byLive *schema.Validator
	made, madeLive bool
	// looser tells that the schema to come takes what the live one takes: the upgrade makes no object worse, so none is judged.
	looser bool
	// tried are objects to try a write of.
	tried []world.Ref
	err   error
}

func (k *storedKind) groupKind() kschema.GroupKind {
	return kschema.GroupKind{Group: k.Next.Group, Kind: k.Next.Kind}
}

// choose decides in which version objects are read and by which version's schema they are judged: the version that they
// will be stored in, where the API server has it already. Without a webhook an object is the same in all versions, so it
// can be judged by any.
func (k *storedKind) choose() {
	next := k.Next.Storage()
	served := k.Live.Served()
	if len(served) == 0 {
		return
	}
	k.ReadAt = k.Live.ReadAt()
	switch {
	case slices.Contains(served, next):
		k.ReadAt, k.JudgedAt = next, next
	case !k.Next.Webhook:
		k.JudgedAt = next
	case slices.Contains(k.Next.Names(), k.ReadAt):
		k.JudgedAt = k.ReadAt
	}
}

func looserSchema(k *storedKind, live *unstructured.Unstructured) bool {
	return schema.TakesAll(k.next, k.JudgedAt, live, k.ReadAt)
}

// see looks at one object.
func (k *storedKind) see(ctx context.Context, c *storedCollector, u *unstructured.Unstructured) {
	k.Objects++
	ref := world.RefOf(u)
	if len(k.tried) < triedWrites && len(k.Drop()) > 0 {
		k.tried = append(k.tried, ref)
	}
	// The accessors of unstructured objects copy what they return, which is much for ten thousand objects.
	metadata, _ := u.Object["metadata"].(map[string]any)
	k.seeFields(ref, c.s.managers())
	if owners, found := metadata["ownerReferences"]; found && owners != nil {
		c.seeOwners(k.Next.Name, k.groupKind(), ref, u.GetOwnerReferences())
	}
	k.judge(ctx, c, ref, u)
}

// seeFields notes managedFields at a version that is not to come.
func (k *storedKind) seeFields(ref world.Ref, entries []managedEntry) {
	var newest *world.StaleFields
	for _, e := range entries {
		if !storage.StaleField(metav1.ManagedFieldsEntry{APIVersion: e.APIVersion}, k.Next.Group, k.Next.Names()) {
			continue
		}
		at, err := time.Parse(time.RFC3339, e.Time)
		if err != nil {
			at = time.Time{} // without a time it is older than any that has one
		}
		if newest == nil || at.After(newest.At) {
			gv, _ := kschema.ParseGroupVersion(e.APIVersion)
			newest = &world.StaleFields{Object: ref, Version: gv.Version, Manager: e.Manager, At: at}
		}
	}
	if newest != nil {
		k.Fields.Add(*newest)
	}
}

// judge notes an object that does not satisfy the schema to come.
func (k *storedKind) judge(ctx context.Context, c *storedCollector, ref world.Ref, u *unstructured.Unstructured) {
	if k.JudgedAt == "" || k.looser || k.err != nil {
		return
	}
	if !k.made {
		k.made = true
		if k.byNext, k.err = schema.New(k.next, k.JudgedAt); k.err != nil {
			return
		}
	}
	if k.byNext == nil {
		return
	}
	faults := k.byNext.Judge(ctx, judged(u))
	if len(faults) == 0 {
		return
	}
	found := world.InvalidObject{Object: ref, Path: faults[0].Path, Rule: faults[0].Rule, More: len(faults) - 1}
	if k.fitsNow(ctx, c, u) {
		k.Invalid.Add(found)
		return
	}
	k.Already.Add(found)
}

// fitsNow tells whether an object satisfies the schema of the live CRD.
func (k *storedKind) fitsNow(ctx context.Context, c *storedCollector, u *unstructured.Unstructured) bool {
	if !k.madeLive {
		k.madeLive = true
		live, err := c.s.clients.resource(definitionMapping(), "").Get(ctx, k.Next.Name, metav1.GetOptions{})
		if err != nil {
			k.err = fmt.Errorf("read CRD %s: %w", k.Next.Name, err)
			return true
		}
		if k.byLive, k.err = schema.New(live, k.ReadAt); k.err != nil {
			return true
		}
	}
	return k.byLive == nil || len(k.byLive.Judge(ctx, judged(u))) == 0
}

// judged returns a copy to be judged, without metadata that no schema speaks of.
func judged(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := maps.Clone(u.Object)
	for name, v := range out {
		if name != "metadata" {
			out[name] = runtime.DeepCopyJSONValue(v)
		}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, name := range []string{"name", "generateName", "namespace"} {
		if v, found := metadata[name]; found {
			kept[name] = v
		}
	}
	out["metadata"] = kept
	return &unstructured.Unstructured{Object: out}
}
