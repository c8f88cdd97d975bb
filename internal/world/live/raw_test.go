// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestManagedFieldsAreCutOutAndNothingElse(t *testing.T) {
	t.Parallel()
	const managed = `"managedFields":[{"fieldsV1":{"f:a":{"k:{\"x\":\"]}\"}":{}}},"manager":"m"}]`
	tests := map[string]struct{ in, want string }{
		"in the middle":              {`{"items":[{"metadata":{"a":1,` + managed + `,"name":"x"}}]}`, `{"items":[{"metadata":{"a":1,"name":"x"}}]}`},
		"at the beginning":           {`{"items":[{"metadata":{` + managed + `,"name":"x"}}]}`, `{"items":[{"metadata":{"name":"x"}}]}`},
		"at the end":                 {`{"items":[{"metadata":{"name":"x",` + managed + `}}]}`, `{"items":[{"metadata":{"name":"x"}}]}`},
		"alone":                      {`{"items":[{"metadata":{` + managed + `}}]}`, `{"items":[{"metadata":{}}]}`},
		"in each of several items":   {`{"items":[{"metadata":{` + managed + `}},{"metadata":{"a":[{}],` + managed + `}}],"kind":"L"}`, `{"items":[{"metadata":{}},{"metadata":{"a":[{}]}}],"kind":"L"}`},
		"a field of a spec stays":    {`{"items":[{"spec":{` + managed + `},"metadata":{}}]}`, `{"items":[{"spec":{` + managed + `},"metadata":{}}]}`},
		"a template's stays":         {`{"items":[{"spec":{"metadata":{` + managed + `}}}]}`, `{"items":[{"spec":{"metadata":{` + managed + `}}}]}`},
		"the list's own stays":       {`{"metadata":{` + managed + `},"items":[]}`, `{"metadata":{` + managed + `},"items":[]}`},
		"a value of that name stays": {`{"items":[{"metadata":{"a":"managedFields","b":["managedFields"]}}]}`, `{"items":[{"metadata":{"a":"managedFields","b":["managedFields"]}}]}`},
		"text that looks like it":    {`{"items":[{"metadata":{"a":"\"managedFields\":[1],","b":"\\"}}]}`, `{"items":[{"metadata":{"a":"\"managedFields\":[1],","b":"\\"}}]}`},
		"no items":                   {`{"items":null}`, `{"items":null}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rest, _ := cutManagedFields([]byte(test.in))
			got := string(rest)
			if got != test.want || !json.Valid([]byte(got)) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// FuzzManagedFields compares with what a decoder makes of the same list.
func FuzzManagedFields(f *testing.F) {
	f.Add(`{"kind":"AList","items":[{"metadata":{"managedFields":[{"a":"}"}],"name":"x"},"spec":{"managedFields":[]}}]}`)
	f.Add(`{"kind":"AList","items":[{"metadata":{"name":"\\\"","managedFields":[]}}]}`)
	f.Add(`{"items":[[{"metadata":{"managedFields":[]}}]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var list map[string]any
		if json.Unmarshal([]byte(text), &list) != nil {
			_, _ = cutManagedFields([]byte(text)) // no panic is all that can be asked
			return
		}
		raw, err := json.Marshal(list) // as an API server writes it: no spaces, each key once
		if err != nil {
			t.Fatal(err)
		}
		items, _ := list["items"].([]any)
		cut := map[int]any{}
		for i, item := range items {
			object, _ := item.(map[string]any)
			metadata, _ := object["metadata"].(map[string]any)
			switch metadata["managedFields"].(type) {
			case []any, map[string]any:
				cut[i] = metadata["managedFields"]
				delete(metadata, "managedFields")
			case nil:
			default:
				return // an API server writes a list
			}
		}
		var got map[string]any
		rest, managed := cutManagedFields(raw)
		if err := json.Unmarshal(rest, &got); err != nil {
			t.Fatalf("%v\nin %s", err, raw)
		}
		for i, m := range managed {
			var fields any
			if m == nil {
				continue
			}
			if err := json.Unmarshal(m, &fields); err != nil || !cmp.Equal(fields, cut[i]) {
				t.Errorf("item %d: managed fields are %s, want %v; error %v", i, m, cut[i], err)
			}
		}
		for i := range cut {
			if i >= len(managed) || managed[i] == nil {
				t.Errorf("item %d: its managed fields %v are gone", i, cut[i])
			}
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("-want +got:\n%s\nin %s", diff, raw)
		}
	})
}

// answering returns a round on a server that gives one answer to every list, and counts them by path and query.
func answering(t *testing.T, status int, body string, asked *[]string) *round {
	t.Helper()
	return roundOn(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		query.Del("timeout")
		*asked = append(*asked, req.URL.Path+"?"+query.Encode())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
}

func mappingOf(group, version, resource, kind string) *apimeta.RESTMapping {
	return &apimeta.RESTMapping{
		Resource:         schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Scope:            apimeta.RESTScopeNamespace,
	}
}

func TestLeanListSaysWhatItsItemsAre(t *testing.T) {
	t.Parallel()
	var asked []string
	r := answering(t, http.StatusOK, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"more"},"items":[
		{"metadata":{"name":"a","generation":3,"managedFields":[{}]},"data":{"x":"y"}}]}`, &asked)
	page, err := r.clients.leanList(t.Context(), mappingOf("", "v1", "configmaps", "ConfigMap"), metav1.ListOptions{Limit: 2, Continue: "c", LabelSelector: "!a"})
	if err != nil {
		t.Fatal(err)
	}
	want := []unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "generation": int64(3)}, "data": map[string]any{"x": "y"},
	}}}
	if diff := cmp.Diff(want, page.items); diff != "" || page.next != "more" || string(page.managed[0]) != "[{}]" {
		t.Errorf("continue %q, managed fields %s, -want +got:\n%s", page.next, page.managed, diff)
	}
	if diff := cmp.Diff([]string{"/api/v1/configmaps?continue=c&labelSelector=%21a&limit=2"}, asked); diff != "" {
		t.Errorf("asked, -want +got:\n%s", diff)
	}
}

func TestAPageThatIsNoListIsAnErrorAndNotAnEmptyFleet(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		body   string
		is     func(error) bool
	}{
		"an expired token": {
			http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`, apierrors.IsResourceExpired,
		},
		"a kind that is not there": {http.StatusNotFound, "404 page not found", apierrors.IsNotFound},
		"another object":           {http.StatusOK, `{"kind":"Machine","items":[]}`, func(err error) bool { return strings.Contains(err.Error(), "no list") }},
		"items of another type":    {http.StatusOK, `{"kind":"MachineList","items":{}}`, func(err error) bool { return err != nil }},
		"a cut answer":             {http.StatusOK, `{"kind":"MachineList","items":[{"metadata":`, func(err error) bool { return err != nil }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			r := answering(t, test.status, test.body, &asked)
			if got, _, err := r.machinePage(t.Context(), mappingOf(capiGroup, "v1beta2", "machines", "Machine"), metav1.ListOptions{}); err == nil || !test.is(err) {
				t.Errorf("machines %v, error %v", got, err)
			}
		})
	}
}

func TestAMachineIsReadWhateverElseIsInIt(t *testing.T) {
	t.Parallel()
	var asked []string
	r := answering(t, http.StatusOK, `{"kind":"MachineList","metadata":{},"items":[
		{"metadata":{"name":"a","namespace":"n","uid":"1","labels":{"cluster.x-k8s.io/cluster-name":"c","cluster.x-k8s.io/set-name":"s"}},"spec":{"version":{"not":"text"}}},
		{"metadata":{"name":"b","namespace":"n","uid":"2","deletionTimestamp":"2026-01-01T00:00:00Z",
			"ownerReferences":[{"kind":"X","name":"no"},{"apiVersion":"g/v1","kind":"Pool","name":"p","controller":true}]},
			"spec":{"version":"v1.2.3"},"status":{"conditions":[{"type":"OwnerRemediated","status":"True"}],"v1beta2":{"conditions":[{"type":"OwnerRemediated","status":"False"}]}}},
		{"metadata":{"name":"c","namespace":"n","annotations":{"cluster.x-k8s.io/remediate-machine":""},"labels":{"cluster.x-k8s.io/control-plane":"","cluster.x-k8s.io/control-plane-name":"cp"}}}]}`, &asked)
	got, _, err := r.machinePage(t.Context(), mappingOf(capiGroup, "v1beta2", "machines", "Machine"), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var machines []world.Machine
	for _, m := range got {
		machines = append(machines, m.in("v", world.Ref{}))
	}
	want := []world.Machine{
		{Name: "a", UID: "1", Owner: world.Ref{APIVersion: "v", Kind: "MachineSet", Namespace: "n", Name: "s"}},
		{Name: "b", UID: "2", Owner: world.Ref{APIVersion: "g/v1", Kind: "Pool", Namespace: "n", Name: "p"}, Version: "v1.2.3", Deleting: true, Remediated: true},
		{Name: "c", Owner: world.Ref{Namespace: "n", Name: "cp"}, Remediated: true},
	}
	if diff := cmp.Diff(want, machines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
