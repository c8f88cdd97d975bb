// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/problem"
)

// pausing is what a Cluster says about being paused.
func (b *bed) pausing(t *testing.T, name string) map[string]any {
	t.Helper()
	c := b.get(t, coreAPI, "Cluster", "fleet", name)
	paused, found, _ := unstructured.NestedBool(c.Object, "spec", "paused")
	return map[string]any{
		"paused": paused, "found": found, "held-for": c.GetAnnotations()["capstan.dev/held-for"] != "",
		"paused-by": c.GetAnnotations()["capstan.dev/paused-by"] != "", "before": c.GetAnnotations()["capstan.dev/paused-before"],
	}
}

func TestC70_ManagementClusterIsHeldWhileComponentsMove(t *testing.T) {
	t.Parallel()
	b := selfHostedBed(t)
	before, other := b.pausing(t, "self"), b.pausing(t, "other")
	uids := b.machineUIDs(t, "self")
	r := b.capstan(t, "plan", settingsRelease(t, "v1.0.0"))
	want(t, r, problem.ExitDone, "CAP-SELF-HOSTED", "Cluster fleet/self is the management cluster itself")
	lacks(t, r, "Cluster fleet/other")
	want(t, b.capstan(t, "plan", settingsRelease(t, "v1.0.0"), "-o", "json"), problem.ExitDone, `"selfHosted"`)

	want(t, b.capstan(t, "upgrade", settingsRelease(t, "v1.0.0"), "--yes"), problem.ExitDone)
	if diff := cmp.Diff(before, b.pausing(t, "self")); diff != "" {
		t.Errorf("the cluster is not as it was before, -want +got:\n%s", diff)
	}
	held := 0
	for _, w := range b.Writes(t, "capstan/") {
		if w.Verb == "patch" && w.Object == "clusters.cluster.x-k8s.io fleet/self" {
			held++
		}
	}
	if held != 2 {
		t.Errorf("the cluster was changed %d times, want once to pause and once to put back:\n%v", held, b.writes(t))
	}
	if diff := cmp.Diff(other, b.pausing(t, "other")); diff != "" {
		t.Errorf("another cluster was changed, -before +after:\n%s", diff)
	}
	if diff := cmp.Diff(uids, b.machineUIDs(t, "self")); diff != "" {
		t.Errorf("Machines, -before +after:\n%s", diff)
	}
}

func TestC70_NewControllersRepointTheirOwnTemplate(t *testing.T) {
	t.Parallel()
	b := selfHostedBed(t)
	uids := b.machineUIDs(t, "self")
	held := map[string]any{"paused": true, "found": true, "held-for": true, "paused-by": false, "before": "absent"}
	r := b.during(t, stuck(t), func() {
		if diff := cmp.Diff(held, b.pausing(t, "self")); diff != "" {
			t.Errorf("the cluster is not paused while components move, -want +got:\n%s", diff)
		}
		b.patch(t, b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "self-cp"), `{"spec":{"machineTemplate":{"spec":{"infrastructureRef":{"name":"self-cp-2"}}}}}`)
	})
	want(t, r, problem.ExitFailed, "KubeadmControlPlane fleet/self-cp", `infrastructureRef.name from "self-cp-1" to "self-cp-2"`)

	t.Run("the end of the run does not let it roll", func(t *testing.T) {
		want(t, b.capstan(t, "abort"), problem.ExitDone)
		after := map[string]any{"paused": true, "found": true, "held-for": false, "paused-by": true, "before": "absent"}
		if diff := cmp.Diff(after, b.pausing(t, "self")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff(uids, b.machineUIDs(t, "self")); diff != "" {
			t.Errorf("Machines, -before +after:\n%s", diff)
		}
	})
	t.Run("the pending difference is shown, and to roll is a step of its own", func(t *testing.T) {
		b.infraMachines(t, "self", "self-cp-1")
		next := writeRelease(t, "v1.1.0", "", part{name: "more", version: "v1.0.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: default}\n"})
		want(t, b.capstan(t, "plan", next), problem.ExitDone, "WARN", "CAP-SELF-HOSTED", "wants infrastructure from self-cp-2", "3 Machines are made from self-cp-1", "as a step of its own")
		want(t, b.capstan(t, "upgrade", next, "--yes"), problem.ExitDone)
		if got := b.pausing(t, "self"); got["paused"] != true {
			t.Errorf("the upgrade unpaused what it had not paused: %v", got)
		}
	})
}

func TestC70_StopAndAbortPutItBack(t *testing.T) {
	t.Parallel()
	b := selfHostedBed(t)
	b.patch(t, b.get(t, coreAPI, "Cluster", "fleet", "self"), `{"spec":{"paused":false}}`)
	before := b.pausing(t, "self")
	got := make(chan result, 1)
	ctx, interrupt := context.WithTimeout(t.Context(), 15*time.Second)
	defer interrupt()
	go func() { got <- command(ctx, b.Kubeconfig, "upgrade", stuck(t), "--yes", "--stall-limit", "5m") }()
	b.until(t, "the cluster is paused", func(context.Context) (bool, error) { return b.pausing(t, "self")["held-for"] == true, nil }) //nolint:contextcheck // the helper has the test's own
	interrupt()
	<-got
	if b.pausing(t, "self")["paused"] != true {
		t.Error("an interrupted run let the cluster go while components are half-way")
	}
	want(t, b.capstan(t, "abort"), problem.ExitDone)
	if diff := cmp.Diff(before, b.pausing(t, "self")); diff != "" {
		t.Errorf("the cluster is not as it was before, -want +got:\n%s", diff)
	}
}

// infraMachines makes the infrastructure of a cluster's control plane Machines, made from a template.
func (b *bed) infraMachines(t *testing.T, cluster, template string) {
	t.Helper()
	b.apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: demomachines.infrastructure.cluster.x-k8s.io}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: DemoMachine, plural: demomachines, singular: demomachine}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`)
	for _, n := range []string{"0", "1", "2"} {
		b.apply(t, "apiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: DemoMachine\nmetadata: {name: "+cluster+"-cp-"+n+
			", namespace: fleet, annotations: {cluster.x-k8s.io/cloned-from-name: "+template+"}}\n")
	}
}
