// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestC24_KilledAtEveryWrite ends Capstan without a warning behind its first write, its second, and so on: from that moment
// on none of its requests gets through. The same command then finishes the upgrade, with the same objects as one that was
// left alone.
func TestC24_KilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	g := guillotineFor(t, b)
	var absent []string
	stop := b.watch(t, schema.GroupVersionResource{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Resource: "providers"}, "", func(e watch.Event) {
		if e.Type == watch.Deleted {
			absent = append(absent, e.Object.(*unstructured.Unstructured).GetName()) //nolint:forcetypeassert // what a watch of the dynamic client shows
		}
	})
	b.installed(t, part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider"})
	b.apply(t, docker)
	release := func(n int) (dir, version string) {
		version = fmt.Sprintf("v1.1.%d", n)
		return writeRelease(t, version, "",
			part{name: "docker", version: version, provider: "InfrastructureProvider", manifests: docker + "---\n" + configMap("first", version) + "---\n" + configMap("second", version)},
			part{name: "after", version: version, manifests: configMap("after", version), needs: []string{"docker"}}), version
	}
	first, version := release(0)
	calm := g.capstan(t, 0, "upgrade", first, "--yes")
	want(t, calm, problem.ExitDone)
	whole := b.state(t, version)
	second, version := release(1)
	want(t, g.capstan(t, 0, "upgrade", second, "--yes"), problem.ExitDone)
	if diff := cmp.Diff(whole, b.state(t, version)); diff != "" {
		t.Fatalf("two upgrades that were left alone differ (-first +second):\n%s", diff)
	}
	writes := g.count
	if writes < 8 {
		t.Fatalf("the upgrade has only %d writes", writes)
	}
	named := 0
	for n := 1; n <= writes; n++ {
		dir, version := release(n + 1)
		killed := g.capstan(t, n, "upgrade", dir, "--yes")
		if b.open(t, version) {
			if killed.code == problem.ExitDone {
				t.Errorf("killed behind write %d, it says done, and the run is open", n)
			}
			want(t, b.capstan(t, "status"), problem.ExitDone, version, "of 3 steps done")
			status := b.capstan(t, "status", "-o", "json")
			want(t, status, problem.ExitDone, `"stepsTotal": 3`)
			if strings.Contains(status.stdout, `"current": [`) {
				named++
			}
		}
		want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)
		if diff := cmp.Diff(whole, b.state(t, version)); diff != "" {
			t.Errorf("killed behind write %d (-left alone +killed):\n%s", n, diff)
		}
		if t.Failed() {
			t.Fatalf("stderr of the killed one:\n%s", killed.stderr)
		}
	}
	stop()
	t.Logf("killed behind each of %d writes; at %d of them status named the step that was interrupted", writes, named)
	if named < 3 {
		t.Errorf("status named the interrupted step %d times, want at least once a step", named)
	}
	if len(absent) > 0 {
		t.Errorf("records of providers were deleted: %v", absent)
	}
}

// guillotine stands between Capstan and the API server, and lets nothing through any more behind a given write.
type guillotine struct {
	kubeconfig string

	mu     sync.Mutex
	at     int
	count  int
	ended  bool
	cancel context.CancelFunc
}

func guillotineFor(t *testing.T, b *bed) *guillotine {
	t.Helper()
	g := &guillotine{}
	g.kubeconfig = b.between(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	})
	return g
}

func (g *guillotine) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	writes := r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" && !strings.HasSuffix(r.URL.Path, "reviews")
	g.mu.Lock()
	if !writes {
		ended := g.ended
		g.mu.Unlock()
		if ended {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
		return
	}
	defer g.mu.Unlock() // one at a time, so that there is a moment between two
	if g.ended {
		panic(http.ErrAbortHandler)
	}
	g.count++
	if g.count != g.at {
		next.ServeHTTP(w, r)
		return
	}
	next.ServeHTTP(httptest.NewRecorder(), r)
	g.ended = true
	g.cancel()
	panic(http.ErrAbortHandler)
}

// capstan runs a command and ends it behind its at-th write; 0 never does.
func (g *guillotine) capstan(t *testing.T, at int, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g.mu.Lock()
	g.at, g.count, g.ended, g.cancel = at, 0, false, cancel
	g.mu.Unlock()
	return command(ctx, g.kubeconfig, args...)
}

// open tells whether a run to a version is on record that has not ended.
func (b *bed) open(t *testing.T, version string) bool {
	t.Helper()
	list, err := b.client.Resource(schema.GroupVersionResource{Group: "capstan.dev", Version: "v1alpha1", Resource: "upgrades"}).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		to, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "to")
		_, finished, _ := unstructured.NestedString(list.Items[i].Object, "status", "finishedAt")
		if to == version && !finished {
			return true
		}
	}
	return false
}

// state is the content of what the release of this case makes, with its version left out.
func (b *bed) state(t *testing.T, version string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, u := range []*unstructured.Unstructured{
		b.get(t, "v1", "Namespace", "", "docker-system"), b.get(t, "v1", "ConfigMap", "docker-system", "settings"),
		b.get(t, "v1", "ConfigMap", "docker-system", "first"), b.get(t, "v1", "ConfigMap", "docker-system", "second"), b.get(t, "v1", "ConfigMap", "default", "after"),
		b.get(t, "clusterctl.cluster.x-k8s.io/v1alpha3", "Provider", "docker-system", "infrastructure-docker"),
	} {
		key := u.GetKind() + " " + u.GetName()
		for _, f := range []string{"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"} {
			unstructured.RemoveNestedField(u.Object, "metadata", f)
		}
		data, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[key] = strings.ReplaceAll(string(data), version, "VERSION")
	}
	return out
}
