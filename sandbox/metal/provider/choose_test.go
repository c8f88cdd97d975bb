// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// hostWith makes a host that is free; each change makes it something else.
func hostWith(name string, changes ...func(*unstructured.Unstructured)) unstructured.Unstructured {
	u := object(hostKind())
	u.SetName(name)
	u.SetLabels(map[string]string{"pool": "a"})
	set(u, "available", "status", "provisioning", "state")
	for _, change := range changes {
		change(u)
	}
	return *u
}

func labelled(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		l := u.GetLabels()
		l[key] = value
		u.SetLabels(l)
	}
}

func booked(value string) func(*unstructured.Unstructured) { return labelled(nodeReuseLabel, value) }

func inState(state string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { set(u, state, "status", "provisioning", "state") }
}

func failing(u *unstructured.Unstructured) { set(u, "broken", "status", "errorMessage") }

func annotated(key string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{key: ""}) }
}

func usedBy(name string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		set(u, "Metal3Machine", "spec", "consumerRef", "kind")
		set(u, name, "spec", "consumerRef", "name")
	}
}

func deleted(u *unstructured.Unstructured) { u.SetDeletionTimestamp(new(metav1.Unix(1, 0))) }

func TestChoose(t *testing.T) {
	t.Parallel()
	hosts := func(all ...unstructured.Unstructured) []unstructured.Unstructured { return all }
	cases := map[string]struct {
		hosts  []unstructured.Unstructured
		domain string
		// want are all hosts that chance may pick.
		want   []string
		reused bool
		why    string
	}{
		"any free host, by chance": {
			hosts: hosts(hostWith("a"), hostWith("b"), hostWith("c")), want: []string{"a", "b", "c"},
		},
		"the machine's own host, whatever it does": {
			hosts: hosts(hostWith("a"), hostWith("b", usedBy("m"), inState("provisioned"), failing)), want: []string{"b"},
		},
		"a host booked for the owner goes before free ones": {
			hosts: hosts(hostWith("a"), hostWith("b", booked("cp-k"))), want: []string{"b"}, reused: true,
		},
		"a host booked for somebody else is not free": {
			hosts: hosts(hostWith("a", booked("md-x"))), why: noHost,
		},
		"a booked host that is not available yet makes the machine wait": {
			hosts: hosts(hostWith("a"), hostWith("b", booked("cp-k"), inState("deprovisioning")), hostWith("c", booked("cp-k"))),
			why:   `its state is "deprovisioning"`,
		},
		"a booked host in error is passed over for any other": {
			hosts: hosts(hostWith("a"), hostWith("b", booked("cp-k"), failing)), want: []string{"a"},
		},
		"hosts of another pool, in use, in error, paused, unhealthy, going or busy are left out": {
			hosts: hosts(
				hostWith("a", labelled("pool", "b")), hostWith("b", usedBy("other")), hostWith("c", failing),
				hostWith("d", annotated("baremetalhost.metal3.io/paused")), hostWith("e", annotated("capm3.metal3.io/unhealthy")),
				hostWith("f", deleted), hostWith("g", inState("inspecting")), hostWith("h", annotated("capi.metal3.io/unhealthy")),
			),
			why: noHost,
		},
		"a host of the failure domain is preferred": {
			hosts: hosts(hostWith("a"), hostWith("b", labelled(failureDomainLabel, "r1"))), domain: "r1", want: []string{"b"},
		},
		"another one is taken where there is none": {
			hosts: hosts(hostWith("a")), domain: "r1", want: []string{"a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for range 200 {
				c := choose(tc.hosts, wanted{
					machine: "m", selector: labels.SelectorFromSet(labels.Set{"pool": "a"}), booking: "cp-k", failureDomain: tc.domain,
				})
				if !strings.Contains(c.why, tc.why) || (c.why == "") != (tc.why == "") || c.reused != tc.reused {
					t.Fatalf("got why %q, reused %t; want %q, %t", c.why, c.reused, tc.why, tc.reused)
				}
				if c.host != nil && !slices.Contains(got, c.host.GetName()) {
					got = append(got, c.host.GetName())
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("hosts (-got +want):\n%s", diff)
			}
		})
	}
}

func TestHostSelector(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector map[string]any
		want     bool
		wantErr  bool
	}{
		"none matches all":                {nil, true, false},
		"labels":                          {map[string]any{"matchLabels": map[string]any{"pool": "a"}}, true, false},
		"other labels":                    {map[string]any{"matchLabels": map[string]any{"pool": "b"}}, false, false},
		"an expression":                   {map[string]any{"matchExpressions": []any{map[string]any{"key": "pool", "operator": "in", "values": []any{"a"}}}}, true, false},
		"an expression that excludes":     {map[string]any{"matchExpressions": []any{map[string]any{"key": "pool", "operator": "notin", "values": []any{"a"}}}}, false, false},
		"an operator that does not exist": {map[string]any{"matchExpressions": []any{map[string]any{"key": "pool", "operator": "near", "values": []any{"a"}}}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := object(infraKind("Metal3Machine"))
			if tc.selector != nil {
				set(u, tc.selector, "spec", "hostSelector")
			}
			s, err := hostSelector(u)
			if (err != nil) != tc.wantErr {
				t.Fatalf("got %v, want error %t", err, tc.wantErr)
			}
			if err == nil && s.Matches(labels.Set{"pool": "a"}) != tc.want {
				t.Errorf("%v matches: %t, want %t", s, !tc.want, tc.want)
			}
		})
	}
}
