// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/world"
)

// roundOn returns a round on a server that stands in for an API server.
func roundOn(t *testing.T, h http.Handler) *round {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o, err := New(Options{Config: &rest.Config{Host: s.URL}, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return &round{Observer: o, at: clock.RealClock{}.Now()}
}

func TestCallServiceAsksTheHooksOwnServerThroughTheProxy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		body   string
		want   verdict
	}{
		"it answers":                    {status: http.StatusOK, body: "{}", want: answered},
		"it refuses what it is asked":   {status: http.StatusBadRequest, body: "request body is empty", want: answered},
		"nothing is behind the service": {status: http.StatusServiceUnavailable, body: `{"kind":"Status","apiVersion":"v1","code":503,"message":"no endpoints available for service \"https:hooks:8443\""}`, want: silent},
		"it does not know the path":     {status: http.StatusNotFound, body: "404 page not found", want: silent},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked string
			r := roundOn(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				asked = req.Method + " " + req.URL.Path
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			h := hook{client: hookClient{namespace: "n", service: "hooks", port: 8443, path: "/a/b"}, admission: &admissionHook{}}
			if got := r.callService(t.Context(), h); got.verdict != test.want {
				t.Errorf("verdict is %+v, want %s", got, test.want)
			}
			if want := "GET /api/v1/namespaces/n/services/https:hooks:8443/proxy/a/b"; asked != want {
				t.Errorf("asked %q, want %q", asked, want)
			}
		})
	}
	t.Run("a hook that is reached by URL can't be asked", func(t *testing.T) {
		t.Parallel()
		r := roundOn(t, http.NotFoundHandler())
		if got := r.callService(t.Context(), hook{admission: &admissionHook{}}); got.verdict != unclear {
			t.Errorf("verdict is %+v, want %s", got, unclear)
		}
	})
}

// fleetServer stands in for a management cluster's API server with one Cluster.
type fleetServer struct {
	kubeconfig string
	away       atomic.Bool
}

// ServeHTTP answers discovery, the list of Clusters, and the kubeconfig Secret.
func (f *fleetServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if f.away.Load() {
		panic(http.ErrAbortHandler)
	}
	answers := map[string]any{
		"/api": map[string]any{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis": map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{map[string]any{
			"name": capiGroup, "versions": []any{map[string]any{"groupVersion": capiGroup + "/v1beta2", "version": "v1beta2"}},
			"preferredVersion": map[string]any{"groupVersion": capiGroup + "/v1beta2", "version": "v1beta2"},
		}}},
		"/api/v1": map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{}},
		"/apis/" + capiGroup + "/v1beta2": map[string]any{"kind": "APIResourceList", "groupVersion": capiGroup + "/v1beta2", "resources": []any{
			map[string]any{"name": "clusters", "kind": "Cluster", "namespaced": true, "verbs": []string{"list"}},
		}},
		"/apis/" + capiGroup + "/v1beta2/clusters": map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{
			map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"namespace": "n", "name": "one"}},
			map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"namespace": "n", "name": "no-kubeconfig-yet"}},
		}},
		"/api/v1/namespaces/n/secrets/one-kubeconfig": map[string]any{
			"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "one-kubeconfig"},
			"data": map[string]any{"value": base64.StdEncoding.EncodeToString([]byte(f.kubeconfig))},
		},
	}
	answer, found := answers[req.URL.Path]
	if !found {
		w.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "message": "not found"}
	}
	w.Header().Set("Content-Type", "application/json")
	raw, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(raw)
}

// workloadServer stands in for a workload cluster's API server: it refuses every call, which is an answer.
func workloadServer(t *testing.T, broken *atomic.Bool) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestProberCountsEveryCallAndNamesTheGap(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	cluster := workloadServer(t, &broken)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})
	f := &fleetServer{kubeconfig: fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: x",
		cluster.URL, base64.StdEncoding.EncodeToString(ca))}
	management := httptest.NewServer(f)
	t.Cleanup(management.Close)
	p, err := NewProber(ProberOptions{Config: &rest.Config{Host: management.URL}, Clock: clock.RealClock{}, Interval: 20 * time.Millisecond, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })

	until := func(what string, done func(world.Probe) bool) world.Probe {
		t.Helper()
		var last []world.Probe
		err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			last = p.Snapshot()
			return len(last) == 1 && done(last[0]), nil
		})
		if err != nil {
			t.Fatalf("%s: %+v", what, last)
		}
		return last[0]
	}
	before := until("with the cluster up", func(p world.Probe) bool { return p.Total >= 3 })
	if before.Cluster != "n/one" || before.Failed != 0 || before.LongestGap != 0 {
		t.Errorf("with the cluster up: %+v, want no failure", before)
	}
	// The management cluster is not needed once calls have begun.
	f.away.Store(true)
	broken.Store(true)
	until("with the cluster away", func(p world.Probe) bool { return p.Failed >= 2 })
	broken.Store(false)
	failed := until("with the cluster back", func(p world.Probe) bool {
		return len(p.Gaps) == 1 && p.Total > p.Failed+before.Total
	})
	cancel()
	wg.Wait()
	if failed.LongestGap <= 0 || !strings.Contains(failed.LastError, "EOF") || failed.Gaps[0].Error != failed.LastError {
		t.Errorf("with the cluster back: %+v, want one gap with its error", failed)
	}
	end := p.Snapshot()
	<-clock.RealClock{}.After(60 * time.Millisecond)
	if diff := cmp.Diff(p.Snapshot(), end); diff != "" {
		t.Errorf("counts moved after Run returned (-got +want):\n%s", diff)
	}
}

func TestAKubeconfigThatIsNotThereIsAskedForLessAndLessOften(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	r := roundOn(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	target := &workload{name: clusterName{namespace: "n", name: "one"}, management: r.clients, timeout: time.Second}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for second := range 120 {
		if err := target.ready(t.Context(), begin.Add(time.Duration(second)*time.Second)); err == nil {
			t.Fatal("a cluster without a kubeconfig can be called")
		}
	}
	// At 0, 1, 3, 7, 15, 31 and every 30 s from then on.
	if got := asked.Load(); got != 8 {
		t.Errorf("asked %d times in two minutes, want 8", got)
	}
}
