// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// disturbances are what can happen to one request on its way.
type disturbance string

const (
	none       disturbance = "none"
	refused500 disturbance = "500"
	busy429    disturbance = "429"
	conflict   disturbance = "409"
	cutBefore  disturbance = "cut before"
	cutAfter   disturbance = "cut after"
	slow       disturbance = "slow"
	kill       disturbance = "kill"
	outage     disturbance = "outage"
)

// disturber stands between Capstan and the API server. Which request meets what depends on the seed alone.
type disturber struct {
	kubeconfig string

	mu    sync.Mutex
	rand  *rand.Rand
	share float64 // of requests that are disturbed
	until time.Time
	kill  context.CancelFunc
	met   map[disturbance]int
}

func disturb(t *testing.T, b *bed, seed uint64) *disturber {
	t.Helper()
	d := &disturber{rand: rand.New(rand.NewPCG(seed, 0)), met: map[disturbance]int{}} //nolint:gosec // to be repeatable
	d.kubeconfig = b.between(t, d.wrap)
	return d
}

// draw decides what the next request meets.
func (d *disturber) draw() disturbance {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.until) {
		return cutBefore
	}
	if d.rand.Float64() >= d.share {
		return none
	}
	all := []disturbance{refused500, busy429, conflict, cutBefore, cutBefore, cutAfter, cutAfter, slow, kill, kill, outage}
	is := all[d.rand.IntN(len(all))]
	d.met[is]++
	return is
}

func (d *disturber) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch d.draw() {
		case none:
		case refused500:
			answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
			return
		case busy429:
			w.Header().Set("Retry-After", "1")
			answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
			return
		case conflict:
			if r.Method != http.MethodGet {
				answer(w, http.StatusConflict, metav1.StatusReasonConflict)
				return
			}
		case outage:
			d.mu.Lock()
			d.until = time.Now().Add(2 * time.Second)
			d.mu.Unlock()
			panic(http.ErrAbortHandler)
		case cutBefore:
			panic(http.ErrAbortHandler)
		case cutAfter:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case kill:
			d.kill()
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case slow:
			time.Sleep(500 * time.Millisecond)
		}
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ //nolint:errchkjson // plain data; who hung up does not want it
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "disturbed on purpose",
	})
}

// capstan runs one command line through the disturbances; it can be killed by one.
func (d *disturber) capstan(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.mu.Lock()
	d.kill = cancel
	d.mu.Unlock()
	return command(ctx, d.kubeconfig, args...)
}

// TestDisturbances upgrades a small platform while requests are refused, cut, slowed and answered in vain, and the process
// is killed. Each call ends in success or in a fault that says what to do, and in the end every change was made once, in
// order. CAPSTAN_DISTURBANCES says how many seeds are tried.
func TestDisturbances(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	seeds := 2
	if n, err := strconv.Atoi(os.Getenv("CAPSTAN_DISTURBANCES")); err == nil {
		seeds = n
	}
	old, next := disturbedRelease(t, "v1.0.0"), disturbedRelease(t, "v1.1.0")
	calm := b.contents(t, func() {
		want(t, b.capstan(t, "upgrade", old, "--yes"), problem.ExitDone)
		want(t, b.capstan(t, "upgrade", next, "--yes"), problem.ExitDone)
	})
	if len(calm) < 9 {
		t.Fatalf("the release is too small to be disturbed: %q", calm)
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			b.wipe(t)
			d := disturb(t, b, uint64(seed))
			got := b.contents(t, func() {
				d.insist(t, old)
				d.insist(t, next)
			})
			t.Logf("met: %v", d.met)
			if diff := cmp.Diff(calm, got); diff != "" {
				t.Errorf("changes (-undisturbed +disturbed):\n%s", diff)
			}
		})
	}
}

// insist upgrades to a release, again and again until it is done. Every refusal has to be one that a person can act on.
func (d *disturber) insist(t *testing.T, release string) {
	t.Helper()
	for try := range 40 {
		d.mu.Lock()
		d.share = 0.02 / float64(1+try/4)
		d.mu.Unlock()
		r := d.capstan(t, "upgrade", release, "--yes", "--stall-limit", "20s")
		switch r.code {
		case problem.ExitDone:
			return
		case problem.ExitError, problem.ExitBlocked, problem.ExitStopped, problem.ExitFailed, problem.ExitInterrupted:
			if strings.TrimSpace(r.stderr) == "" || strings.Contains(r.stderr, "panic") {
				t.Errorf("exit %d says nothing of use: %q", r.code, r.stderr)
			}
			t.Logf("try %d: exit %d: %s", try, r.code, lastLines(r.stderr, 3))
		default:
			t.Fatalf("exit %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	}
	t.Fatal("the upgrade did not come to its end")
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// disturbedRelease has three components, the second after the first, with a CRD, objects that change, come and go.
func disturbedRelease(t *testing.T, version string) string {
	t.Helper()
	config := func(name string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: disturbed}\ndata: {version: %s}\n", name, version)
	}
	crd := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.disturbed.example.org}
spec:
  group: disturbed.example.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: "` + version + `", x-kubernetes-preserve-unknown-fields: true}}
`
	first := "apiVersion: v1\nkind: Namespace\nmetadata: {name: disturbed}\n" + config("a1") + config("a2") + config("only-"+strings.ReplaceAll(version, ".", "-"))
	return writeRelease(t, version, "",
		part{name: "third", version: version, manifests: config("c1") + config("c2"), needs: []string{"second"}},
		part{name: "second", version: version, manifests: crd + config("b1") + config("b2"), needs: []string{"first"}},
		part{name: "first", version: version, manifests: first},
	)
}

// history collects the contents that objects had, by kind and name.
type history struct {
	mu   sync.Mutex
	seen map[string][]string
	// ended holds the kinds whose watch has shown what was written last.
	ended map[string]bool
}

// end is the annotation by which the last write is told.
const end = "disturbed.example.org/end"

func (h *history) note(kind string, e watch.Event) {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.GetAnnotations()[end] != "" {
		h.ended[kind] = true
		return
	}
	content, _, _ := unstructured.NestedString(u.Object, "data", "version")
	if versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions"); len(versions) > 0 {
		content, _, _ = unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema", "description") //nolint:forcetypeassert // as it was applied
	}
	if e.Type == watch.Deleted {
		content = "deleted"
	}
	key := kind + " " + u.GetName()
	if seen := h.seen[key]; len(seen) == 0 || seen[len(seen)-1] != content {
		h.seen[key] = append(seen, content)
	}
}

// contents runs do and returns each content that each object of the disturbed release had meanwhile, in order.
func (b *bed) contents(t *testing.T, do func()) []string {
	t.Helper()
	h := &history{seen: map[string][]string{}, ended: map[string]bool{}}
	stop := []func(){
		b.watch(t, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "disturbed", func(e watch.Event) { h.note("ConfigMap", e) }),
		b.watch(t, crds(), "", func(e watch.Event) {
			if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetName() == "things.disturbed.example.org" {
				h.note("CRD", e)
			}
		}),
	}
	do()
	b.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: last, namespace: disturbed, annotations: {"+end+": here}}")
	b.patch(t, b.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.disturbed.example.org"), `{"metadata": {"annotations": {"`+end+`": "here"}}}`)
	b.until(t, "the watches have shown the last writes", func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.ended) == len(stop), nil
	})
	for _, f := range stop {
		f()
	}
	var out []string
	for key, contents := range h.seen {
		out = append(out, key+": "+strings.Join(contents, ", "))
	}
	slices.Sort(out)
	return out
}

// watch calls see for every event from now on, until the returned function is called.
func (b *bed) watch(t *testing.T, gvr schema.GroupVersionResource, namespace string, see func(watch.Event)) func() {
	t.Helper()
	list, err := b.client.Resource(gvr).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.client.Resource(gvr).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range w.ResultChan() {
			see(e)
		}
	})
	return func() {
		w.Stop()
		wg.Wait()
	}
}

// wipe makes the bed as if nothing had been upgraded on it. The namespace stays: nothing here would end it.
func (b *bed) wipe(t *testing.T) {
	t.Helper()
	for _, of := range []struct {
		gvr       schema.GroupVersionResource
		namespace string
		names     []string
	}{
		{gvr: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace: "disturbed"},
		{gvr: schema.GroupVersionResource{Group: "capstan.dev", Version: "v1alpha1", Resource: "upgrades"}},
		{gvr: schema.GroupVersionResource{Group: "capstan.dev", Version: "v1alpha1", Resource: "plans"}},
	} {
		if err := b.client.Resource(of.gvr).Namespace(of.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.patch(t, objects(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: disturbed}")[0], `{"metadata": {"labels": null, "annotations": null}}`)
	if err := b.client.Resource(crds()).Delete(t.Context(), "things.disturbed.example.org", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	b.until(t, "the CRD is gone", func(ctx context.Context) (bool, error) {
		list, err := b.client.Resource(crds()).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=things.disturbed.example.org"})
		return err == nil && len(list.Items) == 0, err
	})
}
