// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/ownership"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// attempts is how often a write that lost a race is tried again at once, on a fresh read. Status updates of a Deployment
// that is rolling are the usual cause, so a few are enough.
const attempts = 5

// Live makes changes for real. It implements step.Concurrent: what it is given to call has to be safe for concurrent use.
type Live struct {
	// Client reaches the cluster.
	Client dynamic.Interface
	// Mapper knows the kinds; it is reset when a kind is not known.
	Mapper apimeta.ResettableRESTMapper
	// Since turns on respect for repairs by hand: fields that a person set after it, and that the manifest would
	// change, are kept. Zero is off: then Capstan's content always wins.
	Since time.Time
	// Kept is told about each object that was applied with fields kept, each time, if set.
	Kept func(ref world.Ref, fields []ownership.Kept)
	// Applied is told what each apply led to, if set: the object as it was asked for and as the API server has it now.
	Applied func(wanted, now *unstructured.Unstructured)
	// Patched is told what became of each change of PatchAll, if set.
	Patched func(ref world.Ref, err error)
}

var _ step.Concurrent = (*Live)(nil)

// Concurrent marks it.
func (l *Live) Concurrent() {}

// NewLive returns an actuator for the cluster that cfg reaches. Unless cfg says otherwise there is no limit of our own on
// calls: client-go's default of 5 a second would take a minute for what takes seconds, and the API server protects itself.
func NewLive(cfg *rest.Config) (*Live, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	return &Live{Client: client, Mapper: mapper}, nil
}

// Apply makes the object what obj says, by server-side apply. Before it, fields that an installer left are taken over, so
// that those which obj has not are removed. On identical content the API server writes nothing.
func (l *Live) Apply(ctx context.Context, obj *unstructured.Unstructured) error {
	ref := world.RefOf(obj)
	var err error
	for range attempts {
		if err = l.applyOnce(ctx, obj); !apierrors.IsConflict(err) {
			break
		}
	}
	return classify("apply", ref, err)
}

func (l *Live) applyOnce(ctx context.Context, obj *unstructured.Unstructured) error {
	ri, p, err := l.prepare(ctx, obj)
	if err != nil {
		return err
	}
	if err := l.clear(ctx, ri, &p); err != nil {
		return err
	}
	now, err := l.takeOverAndApply(ctx, ri, &p)
	if err != nil {
		return err
	}
	if l.Kept != nil && len(p.kept) > 0 {
		l.Kept(world.RefOf(obj), p.kept)
	}
	if l.Applied != nil {
		l.Applied(obj, now)
	}
	return nil
}

// takeOverAndApply takes installers' fields over first, so that what is removed and what is new come in one change: a
// Deployment must not roll twice. CRDs don't roll, are up to a megabyte, and are checked in full on each write: they are
// taken over only if something would stay behind otherwise, or if they are refused with what stays behind.
func (l *Live) takeOverAndApply(ctx context.Context, ri dynamic.ResourceInterface, p *prepared) (*unstructured.Unstructured, error) {
	if p.wanted.GetKind() == "CustomResourceDefinition" {
		now, err := ri.Apply(ctx, p.wanted.GetName(), p.wanted, applyOptions(nil))
		if err != nil && !apierrors.IsInvalid(err) {
			return nil, err
		}
		if err == nil {
			if _, stale, err := ownership.Leftovers(now); err != nil || !stale {
				return now, err
			}
			p.live = now
			if p.wanted.GetResourceVersion() != "" {
				p.wanted.SetResourceVersion(now.GetResourceVersion())
			}
		}
	}
	if err := l.takeOver(ctx, ri, p); err != nil {
		return nil, err
	}
	return ri.Apply(ctx, p.wanted.GetName(), p.wanted, applyOptions(nil))
}

// prepared is an apply that is thought through but not made.
type prepared struct {
	// live is the object as it is, nil if it is not there.
	live *unstructured.Unstructured
	// wanted is what to send.
	wanted *unstructured.Unstructured
	// kept are the fields that are left out of wanted.
	kept []ownership.Kept
}

// prepare reads the object and decides what to send. It writes nothing.
func (l *Live) prepare(ctx context.Context, obj *unstructured.Unstructured) (dynamic.ResourceInterface, prepared, error) {
	ri, err := l.resource(world.RefOf(obj))
	if err != nil {
		return nil, prepared{}, err
	}
	live, err := ri.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ri, prepared{wanted: sendable(obj)}, nil
	}
	if err != nil {
		return nil, prepared{}, err
	}
	if live.GetDeletionTimestamp() != nil {
		return nil, prepared{}, errTerminating
	}
	wanted, kept, err := ownership.Yield(sendable(obj), live, l.Since)
	if err != nil {
		return nil, prepared{}, err
	}
	if !l.Since.IsZero() {
		// What yields was decided on this very state; a repair that comes in between must be seen, not overwritten.
		wanted.SetResourceVersion(live.GetResourceVersion())
	}
	return ri, prepared{live: live, wanted: wanted, kept: kept}, nil
}

// errTerminating passes: applying to an object that is going would only seem to work.
var errTerminating = errors.New("the object is being deleted; it has to be gone first")

// sendable returns a copy without what only the API server writes. Rendered manifests carry "creationTimestamp: null".
func sendable(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	for _, name := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(out.Object, "metadata", name)
	}
	return out
}

func applyOptions(dryRun []string) metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: v1alpha1.FieldOwner, Force: true, DryRun: dryRun}
}

// Patch makes a change by JSON merge patch. If the patch has metadata.resourceVersion, it is refused with ErrConflict
// when the object has changed since.
func (l *Live) Patch(ctx context.Context, ref world.Ref, patch []byte) error {
	_, err := l.patch(ctx, ref, patch, nil)
	return classify("patch", ref, err)
}

func (l *Live) patch(ctx context.Context, ref world.Ref, patch []byte, dryRun []string) (*unstructured.Unstructured, error) {
	ri, err := l.resource(ref)
	if err != nil {
		return nil, err
	}
	opts := metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner, DryRun: dryRun}
	return ri.Patch(ctx, ref.Name, types.MergePatchType, patch, opts)
}

// Delete removes an object; a missing one is no error, nor is a kind that does not exist.
func (l *Live) Delete(ctx context.Context, ref world.Ref, how step.Deletion) error {
	return l.DeleteExact(ctx, ref, "", how)
}

// DeleteExact removes the object that has this UID; one of the same name that was made later stays, which is no error.
// An empty UID means any.
func (l *Live) DeleteExact(ctx context.Context, ref world.Ref, uid types.UID, how step.Deletion) error {
	ri, err := l.resource(ref)
	if apimeta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return classify("delete", ref, err)
	}
	err = ri.Delete(ctx, ref.Name, deleteOptions(uid, how))
	if apierrors.IsNotFound(err) || (uid != "" && apierrors.IsConflict(err)) {
		return nil
	}
	return classify("delete", ref, err)
}

func deleteOptions(uid types.UID, how step.Deletion) metav1.DeleteOptions {
	policy := metav1.DeletePropagationBackground
	if how == step.Orphan {
		policy = metav1.DeletePropagationOrphan
	}
	out := metav1.DeleteOptions{PropagationPolicy: &policy}
	if uid != "" {
		out.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return out
}

// resource returns the client for the kind and namespace of ref. An unknown kind resets the mapper, so that the next
// attempt asks the API server again.
func (l *Live) resource(ref world.Ref) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	mapping, err := l.Mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	if apimeta.IsNoMatchError(err) {
		l.Mapper.Reset()
		mapping, err = l.Mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == apimeta.RESTScopeNameNamespace {
		return l.Client.Resource(mapping.Resource).Namespace(ref.Namespace), nil
	}
	return l.Client.Resource(mapping.Resource), nil
}
