// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// storedPage is how many objects are open at once at most. It bounds what one step of the engine takes.
const storedPage = 200

// definitionMapping returns the mapping of CustomResourceDefinitions.
func definitionMapping() *apimeta.RESTMapping {
	return &apimeta.RESTMapping{
		Resource:         schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		GroupVersionKind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		Scope:            apimeta.RESTScopeRoot,
	}
}

// migrating goes through the stored objects of a resource as far as something has to be written.
func (r *round) migrating(ctx context.Context, want v1alpha1.Migration) (world.Migrating, error) {
	out := world.Migrating{Resource: want.Resource, Follows: true}
	w := r.walks.of(want.Resource)
	if err := r.definition(ctx, want.Resource, w); err != nil {
		return out, err
	}
	mapping, err := r.storedMapping(ctx, want, w)
	if err != nil {
		return out, err
	}
	if d := w.definition; d != nil {
		out.Definition = world.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: d.Name}
		out.ResourceVersion, out.Versions, out.Storage = w.resourceVersion, d.Names(), d.Storage()
		out.Stale = storage.Common(d.Stored, want.Drop)
		out.Flip = len(want.Versions) > 0 && !slices.Contains(want.Versions, out.Storage)
		if out.Flip {
			return out, nil
		}
	}
	if mapping == nil {
		out.Walked, out.Stale = true, nil
		return out, nil
	}
	all := len(out.Stale) > 0
	if all {
		if out.Follows, err = r.follows(ctx, mapping, w); err != nil || !out.Follows {
			return out, err
		}
	}
	w.restart(out.Storage, all)
	if err := r.goThrough(ctx, want, mapping, w); err != nil {
		if diagnose.Classify(err) != diagnose.ClassWebhookSilent {
			return out, fault(ctx, "list "+want.Resource, err)
		}
		out.Unreadable = diagnose.Words(err)
	}
	w.tell(&out)
	return out, nil
}

// definition reads a CRD unless it is as it was; a resource without one is built in, or gone.
func (r *round) definition(ctx context.Context, name string, w *walk) error {
	m := definitionMapping()
	meta, err := r.clients.metadataOf(m, "").Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.definition, w.resourceVersion = nil, ""
		return nil
	}
	if err == nil && meta.ResourceVersion == w.resourceVersion {
		return nil
	}
	if err != nil {
		return fault(ctx, "read CRD "+name, err)
	}
	crd, err := r.clients.resource(m, "").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fault(ctx, "read CRD "+name, err)
	}
	d, err := storage.Read(crd)
	if err != nil {
		return err
	}
	w.definition, w.resourceVersion = &d, crd.GetResourceVersion()
	return nil
}

// storedMapping returns how the objects are reached, nil if they are not served.
func (r *round) storedMapping(ctx context.Context, want v1alpha1.Migration, w *walk) (*apimeta.RESTMapping, error) {
	gk := schema.GroupKind{Group: want.Group, Kind: want.Kind}
	if w.definition != nil {
		m, err := r.mapping(gk.WithVersion(w.definition.ReadAt()))
		if apimeta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fault(ctx, "find kind "+gk.String(), err)
		}
		return m, nil
	}
	ms, err := r.mappings(gk)
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	return ms[0], nil
}

// follows tells whether the API server works with the storage version that the CRD asks for: it publishes a hash of it in
// its discovery, a moment after a CRD was changed.
func (r *round) follows(ctx context.Context, m *apimeta.RESTMapping, w *walk) (bool, error) {
	if w.follows == w.resourceVersion {
		return true, nil
	}
	var list metav1.APIResourceList
	gv := m.Resource.GroupVersion()
	if err := r.clients.discovery.RESTClient().Get().AbsPath("/apis", gv.Group, gv.Version).Do(ctx).Into(&list); err != nil {
		return false, fault(ctx, "read the discovery of "+gv.String(), err)
	}
	i := slices.IndexFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == m.Resource.Resource })
	if i < 0 || list.APIResources[i].StorageVersionHash != storageHash(*w.definition) {
		return false, nil
	}
	w.follows = w.resourceVersion
	return true, nil
}

// storageHash is what the API server publishes (k8s.io/apiserver, pkg/endpoints/discovery/storageversionhash.go). It says
// nothing while the storage version is not served.
func storageHash(d storage.Definition) string {
	if !slices.Contains(d.Served(), d.Storage()) {
		return ""
	}
	sum := sha256.Sum256([]byte(d.Group + "/" + d.Storage() + "/" + d.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// goThrough looks again at open objects whose last attempt failed, then at further pages until one has open objects.
func (r *round) goThrough(ctx context.Context, want v1alpha1.Migration, m *apimeta.RESTMapping, w *walk) error {
	for _, key := range w.failed() {
		meta, err := r.clients.metadataOf(m, key.namespace).Get(ctx, key.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			w.done(key)
			continue
		}
		if err != nil {
			return err
		}
		w.look(want, m, meta)
	}
	for !w.ended && w.openCount() == 0 {
		page, err := r.clients.metadataOf(m, "").List(ctx, metav1.ListOptions{Limit: storedPage, Continue: w.next})
		if apierrors.IsResourceExpired(err) && w.next != "" {
			// What is new since then was stored in the storage version.
			if w.next = restart(err); w.next == "" {
				return fmt.Errorf("go on with the list: %w", err)
			}
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			w.look(want, m, &page.Items[i])
		}
		w.next, w.ended = page.Continue, page.Continue == ""
	}
	return nil
}
