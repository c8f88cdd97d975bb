// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

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

func mappingOf(group, version, resource, kind string) *apimeta.RESTMapping {
	return &apimeta.RESTMapping{
		Resource:         schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Scope:            apimeta.RESTScopeNamespace,
	}
}

func TestAListIsReadInBatchesThatSayWhatTheirItemsAre(t *testing.T) {
	t.Parallel()
	var asked []string
	r := roundOn(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		query.Del("timeout")
		asked = append(asked, req.URL.Path+"?"+query.Encode())
		w.Header().Set("Content-Type", "application/json")
		next, name := `"continue":"more"`, "a"
		if query.Get("continue") != "" {
			next, name = "", "b"
		}
		fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{%s},"items":[{"metadata":{"name":%q,"generation":3,"managedFields":[{}]}}]}`, next, name)
	}))
	m := mappingOf("", "v1", "configmaps", "ConfigMap")
	var got []leanBatch
	err := r.clients.eachBatch(t.Context(), m, metav1.ListOptions{LabelSelector: "!a"}, func() { got = nil }, func(raw []byte) error {
		batch, err := decodeLean(raw, m)
		got = append(got, batch)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	item := func(name string) leanBatch {
		u := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "generation": int64(3)}}}
		return leanBatch{items: []unstructured.Unstructured{u}, managed: [][]byte{[]byte("[{}]")}}
	}
	if diff := cmp.Diff([]leanBatch{item("a"), item("b")}, got, cmp.AllowUnexported(leanBatch{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const path = "/api/v1/configmaps?"
	want := []string{path + "labelSelector=%21a&limit=10000", path + "continue=more&labelSelector=%21a&limit=10000"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked, -want +got:\n%s", diff)
	}
}

func TestAListStartsOverWhereThatHelps(t *testing.T) {
	t.Parallel()
	const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	tests := map[string]struct {
		// answers are given in turn; a status of 0 breaks the answer off.
		answers []string
		want    []string
		limits  []string
		fails   bool
	}{
		"in one piece": {
			answers: []string{`{"kind":"AList","items":[{"a":1}]}`}, want: []string{`{"items":[{"a":1}]}`}, limits: []string{"10000"},
		},
		"when the snapshot is gone": {
			answers: []string{`{"kind":"AList","metadata":{"continue":"x"},"items":[{"a":1}]}`, expired, `{"kind":"AList","items":[{"a":2}]}`},
			want:    []string{`{"items":[{"a":2}]}`}, limits: []string{"10000", "10000", "10000"},
		},
		"when the answer breaks off": {
			answers: []string{`{"kind":"AList","items":[{"a":1},{"a":`, `{"kind":"AList","items":[{"a":1}]}`},
			want:    []string{`{"items":[{"a":1}]}`}, limits: []string{"10000", "500"},
		},
		"but not for ever": {
			answers: []string{`{"kind":"AList","items":[`, `{"kind":"AList","items":[`}, limits: []string{"10000", "500"}, fails: true,
		},
		"and not if it is something else": {answers: []string{`{"kind":"Machine","items":[]}`}, limits: []string{"10000"}, fails: true},
		"nor if the items are no list":    {answers: []string{`{"kind":"AList","items":{}}`}, limits: []string{"10000"}, fails: true},
		"nor if they are no objects":      {answers: []string{`{"kind":"AList","items":["a"]}`}, limits: []string{"10000"}, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var limits []string
			r := roundOn(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				answer := test.answers[min(len(limits), len(test.answers)-1)]
				limits = append(limits, req.URL.Query().Get("limit"))
				w.Header().Set("Content-Type", "application/json")
				if answer == expired {
					w.WriteHeader(http.StatusGone)
				}
				fmt.Fprint(w, answer)
			}))
			var got []string
			err := r.clients.eachBatch(t.Context(), mappingOf("g", "v1", "as", "A"), metav1.ListOptions{}, func() { got = nil }, func(raw []byte) error {
				got = append(got, string(raw))
				return nil
			})
			if (err != nil) != test.fails {
				t.Errorf("error %v, want one: %t", err, test.fails)
			}
			if diff := cmp.Diff(test.want, got); diff != "" && !test.fails {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(test.limits, limits); diff != "" {
				t.Errorf("limits, -want +got:\n%s", diff)
			}
		})
	}
}

func TestAKindThatIsGoneIsNotFound(t *testing.T) {
	t.Parallel()
	r := roundOn(t, http.NotFoundHandler())
	err := r.clients.eachBatch(t.Context(), mappingOf("g", "v1", "as", "A"), metav1.ListOptions{}, func() {}, func([]byte) error { return nil })
	if !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
}

func TestSplitListWhateverThePieces(t *testing.T) {
	t.Parallel()
	const list = `{"apiVersion":"v1","items":[{"a":"],}\"\\"},{"items":[{"b":1}]} , {"c":{}}],"kind":"AList","metadata":{"items":["x"]}}`
	for size := 1; size <= 4; size++ {
		for chunk := 1; chunk < 20; chunk++ {
			var items []any
			head, err := splitList(iotest.HalfReader(&limitedReader{strings.NewReader(list), chunk}), size, func(raw []byte) error {
				var batch struct{ Items []any }
				if err := json.Unmarshal(raw, &batch); err != nil {
					return err
				}
				if len(batch.Items) > size {
					t.Errorf("%d items in a batch of %d", len(batch.Items), size)
				}
				items = append(items, batch.Items...)
				return nil
			})
			var want struct{ Items []any }
			if jsonErr := json.Unmarshal([]byte(list), &want); err != nil || jsonErr != nil {
				t.Fatal(err, jsonErr)
			}
			if diff := cmp.Diff(want.Items, items); diff != "" || string(head) != `{"apiVersion":"v1","items":[],"kind":"AList","metadata":{"items":["x"]}}` {
				t.Errorf("size %d, chunk %d: head %s, -want +got:\n%s", size, chunk, head, diff)
			}
		}
	}
}

// limitedReader gives out few bytes at a time.
type limitedReader struct {
	r io.Reader
	n int
}

func (l *limitedReader) Read(p []byte) (int, error) { return l.r.Read(p[:min(l.n, len(p))]) }

// FuzzSplitList compares with what a decoder makes of the same list.
func FuzzSplitList(f *testing.F) {
	f.Add(`{"kind":"AList","items":[{"a":"}"},{}],"metadata":{"continue":"x"}}`)
	f.Add(`{"items":[],"a":[{}]}`)
	f.Add(`{"items":null,"a":"items"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var items []any
		head, err := splitList(strings.NewReader(text), 2, func(raw []byte) error {
			var batch struct{ Items []any }
			err := json.Unmarshal(raw, &batch)
			items = append(items, batch.Items...)
			return err
		})
		var list, rest map[string]any
		if json.Unmarshal([]byte(text), &list) != nil || err != nil {
			return // that it does not panic is all that can be asked
		}
		raw, marshalErr := json.Marshal(list)
		if marshalErr != nil || len(raw) > len(text) {
			return // a key that stands there twice
		}
		if err := json.Unmarshal(head, &rest); err != nil {
			t.Fatalf("%v\nin %s", err, head)
		}
		if all, is := list["items"].([]any); is && len(all) > 0 {
			if diff := cmp.Diff(all, items); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			list["items"] = []any{}
		}
		if diff := cmp.Diff(list, rest); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestAMachineIsReadWhateverElseIsInIt(t *testing.T) {
	t.Parallel()
	got, err := decodeMachines([]byte(`{"items":[
		{"metadata":{"name":"a","namespace":"n","uid":"1","labels":{"cluster.x-k8s.io/cluster-name":"c","cluster.x-k8s.io/set-name":"s"}},"spec":{"version":{"not":"text"}}},
		{"metadata":{"name":"b","namespace":"n","uid":"2","deletionTimestamp":"2026-01-01T00:00:00Z",
			"ownerReferences":[{"kind":"X","name":"no"},{"apiVersion":"g/v1","kind":"Pool","name":"p","controller":true}]},
			"spec":{"version":"v1.2.3"},"status":{"conditions":[{"type":"OwnerRemediated","status":"True"}],"v1beta2":{"conditions":[{"type":"OwnerRemediated","status":"False"}]}}},
		{"metadata":{"name":"c","namespace":"n","annotations":{"cluster.x-k8s.io/remediate-machine":""},"labels":{"cluster.x-k8s.io/control-plane":"","cluster.x-k8s.io/control-plane-name":"cp"}}}]}`))
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

func TestALimitIsOneForAllClientsTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		qps     float32
		limited bool
	}{
		"nobody asked for one":  {0, false},
		"none is wanted":        {-1, false},
		"ten requests a second": {10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := tuned(&rest.Config{QPS: c.qps, Burst: 20})
			if limited := cfg.RateLimiter != nil; limited != c.limited {
				t.Fatalf("limited: %t, want %t", limited, c.limited)
			}
			if c.limited && cfg.RateLimiter.QPS() != c.qps {
				t.Errorf("%v requests a second, want %v", cfg.RateLimiter.QPS(), c.qps)
			}
			if !c.limited && cfg.QPS >= 0 {
				t.Errorf("QPS is %v: each client makes a limit of its own from that", cfg.QPS)
			}
		})
	}
}
