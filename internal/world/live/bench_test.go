// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/world"
	"github.com/capstan-dev/capstan/internal/world/live"
)

func newRequest(ctx context.Context, url string) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
}

func now() time.Time { return clock.RealClock{}.Now() }

// bench is an API server with a client to set scenes and an Observer to look at them.
type bench struct {
	cfg      *rest.Config
	dyn      dynamic.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	observer *live.Observer
	// requests counts what the observer sends, by method.
	requests *requestCount
}

type requestCount struct{ all, writes atomic.Int64 }

func (c *requestCount) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		c.all.Add(1)
		if req.Method != http.MethodGet && req.URL.Query().Get("dryRun") != "All" {
			c.writes.Add(1)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newBench(t *testing.T) *bench {
	t.Helper()
	cfg := startServer(t)
	b := &bench{cfg: cfg, requests: &requestCount{}}
	var err error
	if b.dyn, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	b.observer = b.newObserver(t)
	return b
}

func (b *bench) newObserver(t *testing.T) *live.Observer {
	t.Helper()
	counted := rest.CopyConfig(b.cfg)
	counted.Wrap(b.requests.wrap)
	o, err := live.New(live.Options{Config: counted, Clock: clock.RealClock{}, FleetInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return u
}

func (b *bench) client(t *testing.T, u *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	gvk := u.GroupVersionKind()
	var m *apimeta.RESTMapping
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		var err error
		m, err = b.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			b.mapper.Reset()
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("kind %s is not served: %v", gvk, err)
	}
	if m.Scope.Name() == apimeta.RESTScopeNameNamespace {
		return b.dyn.Resource(m.Resource).Namespace(u.GetNamespace())
	}
	return b.dyn.Resource(m.Resource)
}

// create makes objects as a given field manager; a status in them is set too.
func (b *bench) create(t *testing.T, manager, docs string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq(docs, "\n---\n") {
		u := parse(t, doc)
		status, hasStatus := u.Object["status"]
		made, err := b.client(t, u).Create(t.Context(), u, metav1.CreateOptions{FieldManager: manager})
		if err != nil {
			t.Fatalf("create %s: %v", world.RefOf(u), err)
		}
		if hasStatus {
			made.Object["status"] = status
			if made, err = b.client(t, u).UpdateStatus(t.Context(), made, metav1.UpdateOptions{FieldManager: "kube-controller-manager"}); err != nil {
				t.Fatalf("set status of %s: %v", world.RefOf(u), err)
			}
		}
		out = append(out, made)
	}
	return out
}

func (b *bench) apply(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	_, err := b.client(t, u).Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "capstan", Force: true})
	if err != nil {
		t.Fatalf("apply %s: %v", world.RefOf(u), err)
	}
}

func (b *bench) remove(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if err := b.client(t, u).Delete(t.Context(), u.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete %s: %v", world.RefOf(u), err)
	}
}

func (b *bench) patch(t *testing.T, u *unstructured.Unstructured, patch string, subresources ...string) {
	t.Helper()
	b.patchAs(t, "test", u, patch, subresources...)
}

func (b *bench) patchAs(t *testing.T, manager string, u *unstructured.Unstructured, patch string, subresources ...string) {
	t.Helper()
	_, err := b.client(t, u).Patch(t.Context(), u.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}, subresources...)
	if err != nil {
		t.Fatalf("patch %s: %v", world.RefOf(u), err)
	}
}

func (b *bench) observe(t *testing.T, wants ...world.Want) *world.World {
	t.Helper()
	w, err := b.observer.Observe(t.Context(), wants)
	if err != nil {
		t.Fatalf("Observe: %v", err)
	}
	return w
}

// one observes a single object.
func (b *bench) one(t *testing.T, presence world.Presence, u *unstructured.Unstructured) world.Object {
	t.Helper()
	w := b.observe(t, world.Want{ID: "x", Objects: []world.Wanted{{Presence: presence, Object: u}}})
	got := w.Sets["x"].Objects
	if len(got) != 1 {
		t.Fatalf("got %d objects, want 1", len(got))
	}
	return got[0]
}

func (b *bench) namespace(t *testing.T, name string) {
	t.Helper()
	b.create(t, "test", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}")
}
