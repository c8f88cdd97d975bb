// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// capiServer stands in for an API server that serves Cluster API's kinds; list answers the lists of objects.
func capiServer(list http.HandlerFunc) http.Handler {
	const resources = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cluster.x-k8s.io/v1beta2","resources":[
		{"name":"clusters","namespaced":true,"kind":"Cluster","verbs":["list"]},
		{"name":"machines","namespaced":true,"kind":"Machine","verbs":["list"]},
		{"name":"planes","namespaced":true,"kind":"Plane","verbs":["list"]},
		{"name":"machinedeployments","namespaced":true,"kind":"MachineDeployment","verbs":["list"]}]}`
	const version = `{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}`
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
	}
	answer("/api", `{"kind":"APIVersions","versions":[]}`)
	answer("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"cluster.x-k8s.io","versions":[`+version+`],"preferredVersion":`+version+`}]}`)
	answer("/apis/cluster.x-k8s.io/v1beta2", resources)
	mux.HandleFunc("/apis/cluster.x-k8s.io/v1beta2/", list)
	return mux
}

func TestAKindThatIsServedButNotFoundDoesNotMeanThatNothingIsThere(t *testing.T) {
	t.Parallel()
	// As for a moment while the API server starts or takes over a changed CRD.
	r := roundOn(t, capiServer(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "404 page not found", http.StatusNotFound)
	}))
	if clusters, err := r.readFleet(t.Context()); err == nil {
		t.Errorf("readFleet returned %v and no error, want an error: the Clusters may all be there", clusters)
	}
}

func TestMachinesAreReadBeforeWhatAsksForThem(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	r := roundOn(t, capiServer(func(w http.ResponseWriter, req *http.Request) {
		kind := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
		mu.Lock()
		order = append(order, kind)
		mu.Unlock()
		items := ""
		if kind == "clusters" {
			items = `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a","namespace":"n"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"List","metadata":{},"items":[%s]}`, items)
	}))
	if _, err := r.readFleet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, d := slices.Index(order, "machines"), slices.Index(order, "machinedeployments"); m < 0 || d < m {
		t.Errorf("read in the order %v: a scale-up in between shows Machines that nobody asked for", order)
	}
}
