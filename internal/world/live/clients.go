// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

const (
	// pageSize keeps one answer of a list at a few megabytes.
	pageSize = 500
	// requestTimeout bounds one request when the caller's config does not: no answer is an answer.
	requestTimeout = 30 * time.Second
	// relistLimit is how often a list starts over because it took longer than the API server keeps its snapshot.
	relistLimit = 3
)

// clients reach one API server through one connection pool.
type clients struct {
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	// streamSize is how many objects are asked for at a time where they are read as they come.
	streamSize atomic.Int64
}

func newClients(in *rest.Config) (*clients, error) {
	cfg := tuned(in)
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make HTTP client: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make dynamic client: %w", err)
	}
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient)
	if err != nil {
		return nil, fmt.Errorf("make metadata client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	cached := memory.NewMemCacheClient(disco)
	c := &clients{dynamic: dyn, metadata: meta, discovery: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}
	c.streamSize.Store(streamSize)
	return c, nil
}

// tuned returns the config with what this package relies on.
func tuned(in *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(in)
	switch {
	case cfg.RateLimiter != nil:
	case cfg.QPS == 0: // the client's own default is five a second
		cfg.QPS = -1
	case cfg.QPS > 0: // one limit for all clients together, and not for each
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, max(cfg.Burst, 1))
	}
	// Warnings about a dry run are of no use to anybody, and the default prints them.
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.WarningHandlerWithContext = nil
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return patient{next: next, clock: clock.RealClock{}} })
	if cfg.Timeout == 0 {
		cfg.Timeout = requestTimeout
	}
	return cfg
}

// mapping returns how a kind is reached. Kinds appear while a run installs CRDs, so an unknown one makes discovery start
// anew, once in a round.
func (r *round) mapping(gvk schema.GroupVersionKind) (*apimeta.RESTMapping, error) {
	m, err := r.clients.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if apimeta.IsNoMatchError(err) {
		r.refresh()
		m, err = r.clients.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	return m, err
}

// mappings returns how a kind is reached in all its served versions, the preferred one first; none if it is not served.
func (r *round) mappings(gk schema.GroupKind) ([]*apimeta.RESTMapping, error) {
	ms, err := r.clients.mapper.RESTMappings(gk)
	if apimeta.IsNoMatchError(err) {
		r.refresh()
		ms, err = r.clients.mapper.RESTMappings(gk)
	}
	if apimeta.IsNoMatchError(err) {
		return nil, nil
	}
	return ms, err
}

func (r *round) refresh() {
	r.refreshOnce.Do(r.clients.mapper.Reset)
}

// resource returns the client for a mapping, in a namespace if the kind has them and one is given.
func (c *clients) resource(m *apimeta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if m.Scope.Name() == apimeta.RESTScopeNameNamespace && namespace != "" {
		return c.dynamic.Resource(m.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(m.Resource)
}

func (c *clients) metadataOf(m *apimeta.RESTMapping, namespace string) metadata.ResourceInterface {
	if m.Scope.Name() == apimeta.RESTScopeNameNamespace && namespace != "" {
		return c.metadata.Resource(m.Resource).Namespace(namespace)
	}
	return c.metadata.Resource(m.Resource)
}

// list returns all objects of a resource.
func list(ctx context.Context, from dynamic.ResourceInterface, opts metav1.ListOptions) ([]unstructured.Unstructured, error) {
	return paged(opts, func(opts metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
		page, err := from.List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.GetContinue(), nil
	})
}

// listMetadata returns the metadata of all objects of a resource.
func listMetadata(ctx context.Context, from metadata.ResourceInterface, opts metav1.ListOptions) ([]metav1.PartialObjectMetadata, error) {
	return paged(opts, func(opts metav1.ListOptions) ([]metav1.PartialObjectMetadata, string, error) {
		page, err := from.List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.GetContinue(), nil
	})
}

// paged collects a list page by page. All pages are of one snapshot; when the API server has dropped that, the list
// starts over.
func paged[T any](opts metav1.ListOptions, page func(metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	opts.Limit = pageSize
	var all []T
	for relists := 0; ; {
		items, next, err := page(opts)
		if apierrors.IsResourceExpired(err) && opts.Continue != "" && relists < relistLimit {
			relists++
			opts.Continue, all = "", nil
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next == "" {
			return all, nil
		}
		opts.Continue = next
	}
}

// typed converts an unstructured object into its Go type.
func typed[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return out, nil
}

// typedList lists a resource and converts its objects.
func typedList[T any](ctx context.Context, from dynamic.ResourceInterface, opts metav1.ListOptions) ([]*T, error) {
	items, err := list(ctx, from, opts)
	if err != nil {
		return nil, err
	}
	out := make([]*T, 0, len(items))
	for i := range items {
		t, err := typed[T](&items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
