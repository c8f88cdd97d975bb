// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package failing breaks upgrades in the ways that people meet most.
package failing

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/scenarios/bed"
)

const goodImage = "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:v1.14.2"

// TestFailingComponents breaks an upgrade in the three ways that people meet most, and repairs each by hand. Nobody has
// to start over.
func TestFailingComponents(t *testing.T) {
	b := bed.Start(t, 1)
	for _, tc := range []struct {
		name    string
		version string
		broken  bed.Edit
		reason  string
		pieces  []string
		repair  func(t *testing.T)
	}{
		{
			name: "an image that does not exist", version: "v1.14.2", reason: v1alpha1.StopImageNotFound,
			broken: bed.Container("bootstrap-kubeadm", func(c map[string]any) { c["image"] = "registry.k8s.io/cluster-api/not-there:v9" }),
			pieces: []string{"bootstrap-kubeadm", "registry.k8s.io/cluster-api/not-there:v9"},
			repair: func(t *testing.T) {
				b.Must(t, b.Sandbox(t.Context(), "image", "add", "registry.k8s.io/cluster-api/not-there:v9", "--from", goodImage))
			},
		},
		{
			name: "a Pod that no node has memory for", version: "v1.14.3", reason: v1alpha1.StopUnschedulable,
			broken: bed.Container("bootstrap-kubeadm", func(c map[string]any) {
				c["resources"] = map[string]any{"requests": map[string]any{"memory": "40Gi"}}
			}),
			pieces: []string{"bootstrap-kubeadm", "memory"},
			repair: func(t *testing.T) { b.Must(t, b.Sandbox(t.Context(), "node", "set", "--memory", "64Gi")) },
		},
		{
			name: "a manager that crashes", version: "v1.14.4", reason: v1alpha1.StopCrashing,
			// It still elects a leader: without, its predecessor would have to stop first.
			broken: bed.Container("bootstrap-kubeadm", func(c map[string]any) { c["args"] = append(c["args"].([]any), "--no-such-flag") }),
			pieces: []string{"bootstrap-kubeadm", "manager", "kubectl logs"},
			repair: func(t *testing.T) {
				patch := `{"spec":{"template":{"spec":{"containers":[{"name":"manager","args":["--leader-elect","--diagnostics-address=:8443"]}]}}}}`
				b.PatchDeployment(t, "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-controller-manager", patch)
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := bed.Variant(t, b.Releases[bed.NewVersion], tc.version, bed.Revision(tc.version), tc.broken)
			began := time.Now()
			r := b.Capstan(t.Context(), "upgrade", dir, "--yes", "--stall-limit", "1m")
			bed.Want(t, r, 5, append(tc.pieces, "capstan resume")...)
			if took := time.Since(began); took > 3*time.Minute {
				t.Errorf("stopped after %s, want within the stall limit of the step", took)
			}
			status := b.Must(t, b.Capstan(t.Context(), "status", "-o", "json"))
			for _, p := range append([]string{tc.reason}, tc.pieces...) {
				if !strings.Contains(status.Stdout, p) {
					t.Errorf("status -o json does not name %q:\n%s", p, status.Stdout)
				}
			}
			oldControllersRun(t, b)
			tc.repair(t)
			bed.Want(t, b.Capstan(t.Context(), "resume"), 0, "6 of 6", tc.version)
		})
	}
}

// oldControllersRun makes sure that every provider has a ready manager although the upgrade stopped. On a machine that is
// short of CPU a manager can lose its own lease and start again; that is given a minute, and is told.
func oldControllersRun(t *testing.T, b *bed.Bed) {
	t.Helper()
	var missing []string
	for range 60 {
		if missing = withoutController(t, b); len(missing) == 0 {
			return
		}
		t.Logf("no ready controller at the moment: %v", missing)
		time.Sleep(time.Second)
	}
	t.Errorf("Deployments without a ready controller: %v", missing)
}

// withoutController lists the provider Deployments that have no ready Pod.
func withoutController(t *testing.T, b *bed.Bed) []string {
	t.Helper()
	list, err := b.Client(t).AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/provider"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 4 {
		t.Fatalf("%d provider Deployments, want 4", len(list.Items))
	}
	var out []string
	for _, d := range list.Items {
		if d.Status.ReadyReplicas < 1 {
			out = append(out, d.Name)
		}
	}
	return out
}
