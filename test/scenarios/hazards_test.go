// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/scenarios/bed"
)

const (
	bootstrapNamespace = "capi-kubeadm-bootstrap-system"
	bootstrapManager   = "capi-kubeadm-bootstrap-controller-manager"
)

// hazards goes through what a rolling swap would hide, on a cluster that is at the new version. Each is decided in the
// plan, shown, and done.
func hazards(t *testing.T, b *bed.Bed) {
	t.Run("a controller without leader election is stopped first, and the gap is told", func(t *testing.T) {
		dir := bed.Variant(t, b.Releases[bed.NewVersion], "v1.14.3", bed.Revision("3"), bootstrap(func(c map[string]any) {
			args := c["args"].([]any)
			for i := range args {
				if args[i] == "--leader-elect" {
					args[i] = "--leader-elect=false"
				}
			}
		}))
		bed.Want(t, b.Capstan(t.Context(), "plan", dir), 0, "StopThenStart", "TwoActiveControllers")
		bed.Want(t, b.Capstan(t.Context(), "upgrade", dir, "--yes"), 0, "6 of 6", "Without a running controller", "bootstrap-kubeadm")
	})

	t.Run("what a release no longer has is removed at the end", func(t *testing.T) {
		with := bed.Variant(t, b.Releases[bed.NewVersion], "v1.14.4", bed.Revision("4"))
		bed.Add(t, with, "bootstrap-kubeadm", leftover)
		bed.Want(t, b.Capstan(t.Context(), "upgrade", with, "--yes"), 0, "6 of 6")
		maps := b.Client(t).CoreV1().ConfigMaps(bootstrapNamespace)
		if _, err := maps.Get(t.Context(), "leftover", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		without := bed.Variant(t, b.Releases[bed.NewVersion], "v1.14.5", bed.Revision("5"))
		bed.Want(t, b.Capstan(t.Context(), "plan", without), 0, "OldControllerFights", "1 ConfigMap")
		bed.Want(t, b.Capstan(t.Context(), "upgrade", without, "--yes"), 0, "6 of 6")
		if _, err := maps.Get(t.Context(), "leftover", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the ConfigMap is still there: %v", err)
		}
	})

	t.Run("a Deployment whose selector changes is replaced", func(t *testing.T) {
		dir := bed.Variant(t, b.Releases[bed.NewVersion], "v1.14.6", bed.Revision("6"), func(component string, o *unstructured.Unstructured) {
			if component == "bootstrap-kubeadm" && o.GetKind() == "Deployment" {
				bed.Set(o, "yes", "spec", "selector", "matchLabels", "scenario")
				bed.Set(o, "yes", "spec", "template", "metadata", "labels", "scenario")
			}
		})
		bed.Want(t, b.Capstan(t.Context(), "plan", dir), 0, "ImmutableField", "StopThenStart")
		bed.Want(t, b.Capstan(t.Context(), "upgrade", dir, "--yes"), 0, "6 of 6", "bootstrap-kubeadm")
		d, err := b.Client(t).AppsV1().Deployments(bootstrapNamespace).Get(t.Context(), bootstrapManager, metav1.GetOptions{})
		if err != nil || d.Spec.Selector.MatchLabels["scenario"] != "yes" || d.Status.ReadyReplicas != 1 {
			t.Errorf("Deployment is %+v, %v; want the new selector and a ready Pod", d.Status, err)
		}
	})

	t.Run("an unrequested change of the fleet stops the run and pauses the cluster", func(t *testing.T) { unrequested(t, b) })
}

const leftover = `
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: leftover
  namespace: capi-kubeadm-bootstrap-system
data:
  of: v1.14.4
`

func bootstrap(change func(c map[string]any)) bed.Edit {
	return bed.Container("bootstrap-kubeadm", change)
}

// unrequested deletes a Machine behind the run's back, while a component can't come up.
func unrequested(t *testing.T, b *bed.Bed) {
	dir := bed.Variant(t, b.Releases[bed.NewVersion], "v1.14.7", bed.Revision("7"), bootstrap(func(c map[string]any) { c["image"] = "registry.k8s.io/cluster-api/not-there:v7" }))
	bed.Want(t, b.Capstan(t.Context(), "upgrade", dir, "--yes", "--stall-limit", "30s"), 5, "not-there:v7")
	machines := b.Dynamic(t, "cluster.x-k8s.io", "v1beta2", "machines")
	list, err := machines.List(t.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/deployment-name"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%d worker Machines, %v", len(list.Items), err)
	}
	victim := list.Items[0].GetName()
	if err := machines.Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r := b.Capstan(t.Context(), "resume")
	bed.Want(t, r, 5, victim, "MachineDeployment", "although nobody asked for it")
	clusters, err := b.Dynamic(t, "cluster.x-k8s.io", "v1beta2", "clusters").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	paused, _, err := unstructured.NestedBool(clusters.Items[0].Object, "spec", "paused")
	if err != nil || !paused {
		t.Errorf("the cluster is not paused: %v", err)
	}
	status := b.Must(t, b.Capstan(t.Context(), "status", "-o", "json"))
	if !strings.Contains(status.Stdout, v1alpha1.StopFenceViolated) {
		t.Errorf("status does not name the violation:\n%s", status.Stdout)
	}
}
