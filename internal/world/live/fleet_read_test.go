// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/world"
)

// listed answers lists of Cluster API's kinds with one Cluster and some Machines, and counts the lists of each kind.
type listed struct {
	mu       sync.Mutex
	lists    map[string]int
	machines int
	// before is called before each answer.
	before func()
}

func (l *listed) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	kind := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	l.mu.Lock()
	l.lists[kind]++
	l.mu.Unlock()
	if l.before != nil {
		l.before()
	}
	var items []string
	item := func(kind, name string) {
		items = append(items, fmt.Sprintf(`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":%q,"metadata":{"name":%q,"namespace":"n","uid":%q,
			"labels":{"cluster.x-k8s.io/cluster-name":"a"},"managedFields":[{"manager":"m"}]},"status":{"phase":"Deleting"},
			"spec":{"clusterName":"a","controlPlaneRef":{"apiGroup":"cluster.x-k8s.io","kind":"Plane","name":"p"}}}`, kind, name, name))
	}
	switch kind {
	case "clusters":
		item("Cluster", "a")
	case "machines":
		for i := range l.machines {
			item("Machine", fmt.Sprintf("m-%04d", i))
		}
	case "machinedeployments":
		item("MachineDeployment", "d")
	case "planes":
		// A control plane of whatever kind says nowhere which Cluster's it is.
		items = append(items, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Plane","metadata":{"name":"p","namespace":"n","uid":"p"},"spec":{"replicas":3}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"AList","metadata":{},"items":[%s]}`, strings.Join(items, ","))
}

func TestAFleetAndASurveyListMachinesOnce(t *testing.T) {
	t.Parallel()
	l := &listed{lists: map[string]int{}, machines: 3*batchSize + 1}
	r := roundOn(t, capiServer(l.ServeHTTP))
	s := newSurveyor(r, world.Ask{Topics: []world.Topic{world.TopicRollouts}})
	early, err := r.readClusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.survey, r.clusters = s, early
	s.begin(t.Context())
	var w world.World
	if err := r.observeFleet(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	clusters := w.Clusters
	s.visitAll(t.Context())
	out := s.end(t.Context())
	if why, failed := out.Failed(world.TopicRollouts); failed {
		t.Fatal(why)
	}
	if got := len(clusters[0].Machines); got != l.machines {
		t.Errorf("the fleet has %d Machines, want %d", got, l.machines)
	}
	if got := len(out.Fleet.Machines); got != l.machines {
		t.Errorf("the survey saw %d Machines, want %d", got, l.machines)
	}
	if got := len(out.Fleet.Rollouts); got != 2 {
		t.Errorf("the survey saw %d owners, want a control plane and a MachineDeployment", got)
	}
	if diff := cmp.Diff(map[string]int{"clusters": 1, "machines": 1, "machinedeployments": 2, "planes": 2}, l.lists); diff != "" {
		t.Errorf("lists, -want +got:\n%s", diff)
	}
}

func TestAnObjectIsShownOnceHoweverOftenItIsListed(t *testing.T) {
	t.Parallel()
	l := &listed{lists: map[string]int{}, machines: 2}
	r := roundOn(t, capiServer(l.ServeHTTP))
	s := newSurveyor(r, world.Ask{Topics: []world.Topic{world.TopicRollouts}})
	s.begin(t.Context())
	for range 2 {
		for _, v := range s.visits {
			if err := s.walk(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := len(s.end(t.Context()).Fleet.Machines); got != l.machines {
		t.Errorf("the survey saw %d Machines, want %d", got, l.machines)
	}
}

func TestABigFleetIsReadLessOften(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	l := &listed{lists: map[string]int{}}
	server := httptest.NewServer(capiServer(l.ServeHTTP))
	t.Cleanup(server.Close)
	o, err := New(Options{Config: &rest.Config{Host: server.URL}, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	readings := func() int {
		t.Helper()
		if err := (&round{Observer: o, at: clock.Now()}).observeFleet(t.Context(), &world.World{}); err != nil {
			t.Fatal(err)
		}
		return l.lists["machines"]
	}
	// The first reading takes 3 s.
	l.before = func() { clock.SetTime(clock.Now().Add(3 * time.Second)); l.before = nil }
	if got := readings(); got != 1 {
		t.Fatalf("%d readings, want 1", got)
	}
	begin := clock.Now().Add(-3 * time.Second)
	clock.SetTime(begin.Add(30*time.Second - 1))
	if got := readings(); got != 1 {
		t.Errorf("%d readings after nearly ten times as long, want 1", got)
	}
	clock.SetTime(begin.Add(30 * time.Second))
	if got := readings(); got != 2 {
		t.Errorf("%d readings after ten times as long, want 2", got)
	}
	// The second took no time.
	clock.SetTime(clock.Now().Add(2 * time.Second))
	if got := readings(); got != 3 {
		t.Errorf("%d readings after two more seconds, want 3", got)
	}
}
