// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/world"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestRolloutInTheWordsOfEitherVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object            string
		current, upToDate int64
		unseen            bool
		doing             []world.Condition
	}{
		"v1beta2": {
			object:  "apiVersion: c/v1beta2\nstatus: {observedGeneration: 2, replicas: 4, upToDateReplicas: 2, conditions: [{type: RollingOut, status: 'True', message: \"two\\nmore\"}, {type: ScalingUp, status: 'False'}]}",
			current: 4, upToDate: 2, doing: []world.Condition{{Type: "RollingOut", Message: "two"}},
		},
		"v1beta1 with the new status beside": {
			object:  "apiVersion: c/v1beta1\nstatus: {observedGeneration: 2, replicas: 4, updatedReplicas: 1, v1beta2: {upToDateReplicas: 2, conditions: [{type: ScalingDown, status: 'True'}]}}",
			current: 4, upToDate: 2, doing: []world.Condition{{Type: "ScalingDown"}},
		},
		"v1beta1 of old releases": {
			object:  "apiVersion: c/v1beta1\nstatus: {observedGeneration: 1, replicas: 3, conditions: [{type: MachinesSpecUpToDate, status: 'False', message: rolling}]}",
			current: 3, upToDate: 0, unseen: true, doing: []world.Condition{{Type: "RollingOut", Message: "rolling"}},
		},
		"at rest by the newer conditions, which are written first": {
			object:  "apiVersion: c/v1beta2\nstatus: {observedGeneration: 2, replicas: 3, upToDateReplicas: 3, conditions: [{type: ScalingUp, status: 'False'}], deprecated: {v1beta1: {conditions: [{type: Resized, status: 'False', message: actual 2}]}}}",
			current: 3, upToDate: 3,
		},
		"at rest": {object: "apiVersion: c/v1beta2\nstatus: {observedGeneration: 2, replicas: 3, upToDateReplicas: 3}", current: 3, upToDate: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := parsed(t, tc.object)
			u.SetKind("KubeadmControlPlane")
			u.SetNamespace("ns")
			u.SetName("cp")
			u.SetGeneration(2)
			u.SetLabels(map[string]string{clusterLabel: "a"})
			r, ok := (&surveyor{}).rollout(u)
			if !ok || r.Current == nil || r.UpToDate == nil {
				t.Fatalf("got %+v, %t", r, ok)
			}
			if *r.Current != tc.current || *r.UpToDate != tc.upToDate || r.Unseen != tc.unseen {
				t.Errorf("got %d, %d up to date, unseen %t; want %d, %d, %t", *r.Current, *r.UpToDate, r.Unseen, tc.current, tc.upToDate, tc.unseen)
			}
			if diff := cmp.Diff(tc.doing, r.Doing, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("conditions, -want +got:\n%s", diff)
			}
		})
	}
}

func TestDamagedJoinConfigurations(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	config := func(machine string, age time.Duration, spec string) bootConfig {
		u := parsed(t, "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfig\nspec: "+spec)
		u.SetNamespace("ns")
		u.SetName(machine)
		u.SetUID("x")
		u.SetLabels(map[string]string{clusterLabel: "a"})
		c := bootConfigOf(u)
		c.uid, c.made = machine, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age)
		return c
	}
	const joined, init, bare = "{joinConfiguration: {controlPlane: {}}}", "{initConfiguration: {nodeRegistration: {name: x}}}", "{format: ignition}"
	for name, tc := range map[string]struct {
		configs []bootConfig
		want    []string
	}{
		"a healthy control plane":                       {configs: []bootConfig{config("m0", day, init), config("m1", 0, joined)}},
		"the first Machine is gone for long":            {configs: []bootConfig{config("m0", day, joined), config("m1", 0, joined)}},
		"the section alone is gone":                     {configs: []bootConfig{config("m0", day, init), config("m1", 0, "{joinConfiguration: {nodeRegistration: {name: x}}}")}, want: []string{"m1"}},
		"an empty joinConfiguration is left":            {configs: []bootConfig{config("m0", day, init), config("m1", 0, "{joinConfiguration: {}}")}, want: []string{"m1"}},
		"all of it is gone, and who was first is known": {configs: []bootConfig{config("m0", day, init), config("m1", 0, bare)}, want: []string{"m1"}},
		"all of it is gone from a later Machine":        {configs: []bootConfig{config("m0", day, joined), config("m1", 0, bare)}, want: []string{"m1"}},
		"the oldest says nothing: it was first":         {configs: []bootConfig{config("m0", day, bare), config("m1", 0, joined)}},
		"moved at once, so age says nothing":            {configs: []bootConfig{config("m0", time.Minute, joined), config("m1", 0, bare)}},
		"two say nothing: only one was first":           {configs: []bootConfig{config("m0", day, bare), config("m1", 0, bare)}, want: []string{"m1"}},
		"timeouts that conversion puts there":           {configs: []bootConfig{config("m0", day, "{joinConfiguration: {timeouts: {x: 1}}}"), config("m1", 0, joined)}},
		"the configuration of a Machine that is gone":   {configs: []bootConfig{config("gone", day, "{joinConfiguration: {nodeRegistration: {name: x}}}")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cp := world.Ref{Kind: "KubeadmControlPlane", Namespace: "ns", Name: "cp"}
			var got []string
			for _, j := range damaged(tc.configs, map[string]world.Ref{"ns/m0": cp, "ns/m1": cp}) {
				got = append(got, j.Machine)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRolloutFieldsOfATemplate(t *testing.T) {
	t.Parallel()
	old := parsed(t, `{clusterName: a, version: v1, nodeDrainTimeout: 5s, readinessGates: [{conditionType: x}],
infrastructureRef: {apiVersion: infra/v1beta1, kind: T, name: t, namespace: ns}, bootstrap: {configRef: {apiVersion: boot/v1beta1, kind: C, name: c}}}`)
	now := parsed(t, `{clusterName: a, version: v1, deletion: {nodeDrainTimeoutSeconds: 9}, minReadySeconds: 3, taints: [{key: k}],
infrastructureRef: {apiGroup: infra, kind: T, name: t}, bootstrap: {configRef: {apiGroup: boot, kind: C, name: c}}}`)
	if diff := cmp.Diff(rolloutFields(old.Object), rolloutFields(now.Object)); diff != "" {
		t.Errorf("fields that change in place, and other versions of a reference, are differences:\n%s", diff)
	}
	now.Object["failureDomain"] = "z"
	if got, want := differing(rolloutFields(old.Object), rolloutFields(now.Object)), []string{`spec.template.spec.failureDomain from nothing to "z"`}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestManaging(t *testing.T) {
	t.Parallel()
	nodes := identities{names: map[string]bool{"n1": true}, providerIDs: map[string]bool{"p://1": true}, uids: map[string]bool{"u1": true}}
	for name, tc := range map[string]struct {
		uid     string
		machine hosted
		want    bool
	}{
		"the same provider ID":                              {machine: hosted{cluster: "ns/a", node: "n1", providerID: "p://1"}, want: true},
		"the same node by UID":                              {machine: hosted{cluster: "ns/a", node: "x", nodeUID: "u1"}, want: true},
		"the same name, and nothing else is known":          {machine: hosted{cluster: "ns/a", node: "n1"}, want: true},
		"the same name with another provider ID":            {machine: hosted{cluster: "ns/a", node: "n1", providerID: "p://2"}},
		"the same name with another UID":                    {machine: hosted{cluster: "ns/a", node: "n1", nodeUID: "u2"}},
		"another cluster's Machine":                         {machine: hosted{cluster: "ns/b", node: "n1", providerID: "p://1"}},
		"the same API server":                               {uid: "home", want: true},
		"another API server, whatever its nodes are called": {uid: "other", machine: hosted{cluster: "ns/a", node: "n1", providerID: "p://1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if why, _ := managing("ns/a", tc.uid, "home", nodes, []hosted{tc.machine}); (why != "") != tc.want {
				t.Errorf("got %q, want it to be the management cluster: %t", why, tc.want)
			}
		})
	}
}
