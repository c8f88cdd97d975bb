// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/problem"
)

// promptly is how soon a change that nobody asked for has to be answered.
const promptly = 30 * time.Second

// stuck is a release whose run does not end by itself: its Deployment never gets a Pod, as nothing runs Pods here.
func stuck(t *testing.T) string {
	t.Helper()
	return writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: tool, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: tool}}
  template:
    metadata: {labels: {app: tool}}
    spec: {containers: [{name: tool, image: example.com/tool:v1.0.0}]}
`})
}

// during runs an upgrade, and do once its first change is made.
func (b *bed) during(t *testing.T, release string, do func()) result {
	t.Helper()
	got := make(chan result, 1)
	go func() { got <- b.capstan(t, "upgrade", release, "--yes", "--stall-limit", "5m") }()
	b.until(t, "the upgrade has made its first change", func(ctx context.Context) (bool, error) {
		_, err := b.client.Resource(deployments()).Namespace("default").Get(ctx, "tool", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	do()
	select {
	case r := <-got:
		return r
	case <-time.After(promptly):
		t.Fatalf("the run goes on %s after the change", promptly)
	}
	return result{}
}

func TestC64_NewDefaultRollsControlPlanes(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a", "b", "c")
	uids := b.machineUIDs(t, "c")
	r := b.during(t, stuck(t), func() {
		for _, name := range []string{"a", "b"} {
			b.applyAs(t, "new-webhook", fmt.Sprintf(`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: %s-cp, namespace: fleet}
spec: {kubeadmConfigSpec: {format: cloud-config}}
`, name))
		}
		// The controller has come as far as the first cluster.
		b.apply(t, machineText("a", "a-cp-new", `cluster.x-k8s.io/control-plane: ""`))
	})
	want(t, r, problem.ExitFailed, "KubeadmControlPlane fleet/a-cp", "a-cp-new", "spec.kubeadmConfigSpec.format", "fleet/b-cp")
	for _, name := range []string{"a", "b"} {
		c := b.get(t, coreAPI, "Cluster", "fleet", name)
		if paused, _, _ := unstructured.NestedBool(c.Object, "spec", "paused"); !paused {
			t.Errorf("cluster %s is not paused", name)
		}
		if c.GetAnnotations()["capstan.dev/paused-before"] != "absent" || c.GetAnnotations()["capstan.dev/paused-by"] == "" {
			t.Errorf("cluster %s does not say who paused it and what it was before: %v", name, c.GetAnnotations())
		}
	}
	if c := b.get(t, coreAPI, "Cluster", "fleet", "c"); c.GetAnnotations()["capstan.dev/paused-by"] != "" {
		t.Error("cluster c is paused although nothing changed there")
	}
	if diff := cmp.Diff(uids, b.machineUIDs(t, "c")); diff != "" {
		t.Errorf("Machines of cluster c, -before +after:\n%s", diff)
	}
}

func TestC64_OtherWaysToRollMachines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(t *testing.T, b *bed)
		want []string
	}{
		"a MachineDeployment gets another version": {
			do: func(t *testing.T, b *bed) {
				t.Helper()
				b.patch(t, b.get(t, coreAPI, "MachineDeployment", "fleet", "a-md"), `{"spec":{"template":{"spec":{"version":"v1.36.0"}}}}`)
			},
			want: []string{"MachineDeployment fleet/a-md", `spec.template.spec.version from "v1.35.0" to "v1.36.0"`},
		},
		"a control plane gets another infrastructure template": {
			do: func(t *testing.T, b *bed) {
				t.Helper()
				b.patch(t, b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "a-cp"), `{"spec":{"machineTemplate":{"spec":{"infrastructureRef":{"name":"a-cp-2"}}}}}`)
			},
			want: []string{"KubeadmControlPlane fleet/a-cp", `infrastructureRef.name from "a-cp-1" to "a-cp-2"`},
		},
		"a roll is asked for at a time": {
			do: func(t *testing.T, b *bed) {
				t.Helper()
				b.patch(t, b.get(t, coreAPI, "MachineDeployment", "fleet", "a-md"), `{"spec":{"rollout":{"after":"2026-01-01T00:00:00Z"}}}`)
			},
			want: []string{"MachineDeployment fleet/a-md", "spec.rollout.after"},
		},
		"a Machine is deleted": {
			do: func(t *testing.T, b *bed) {
				t.Helper()
				m := b.get(t, coreAPI, "Machine", "fleet", "a-md-1")
				if err := b.of(t, m).Delete(t.Context(), m.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"MachineDeployment fleet/a-md", "lost Machine a-md-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withClusters(t, "a", "b")
			r := b.during(t, stuck(t), func() { tc.do(t, b) })
			want(t, r, problem.ExitFailed, append(tc.want, "FenceViolated")...)
			if paused, _, _ := unstructured.NestedBool(b.get(t, coreAPI, "Cluster", "fleet", "a").Object, "spec", "paused"); !paused {
				t.Error("cluster a is not paused")
			}
			if paused, _, _ := unstructured.NestedBool(b.get(t, coreAPI, "Cluster", "fleet", "b").Object, "spec", "paused"); paused {
				t.Error("cluster b is paused although nothing changed there")
			}
		})
	}
}

// TestC64_ChangesThatRollNothing are annotations, fields that change in place, and a default that no Machine follows.
func TestC64_ChangesThatRollNothing(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a")
	got := make(chan result, 1)
	go func() { got <- b.capstan(t, "upgrade", stuck(t), "--yes", "--stall-limit", "10s") }()
	b.until(t, "the upgrade has made its first change", func(ctx context.Context) (bool, error) {
		_, err := b.client.Resource(deployments()).Namespace("default").Get(ctx, "tool", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	md, cp := b.get(t, coreAPI, "MachineDeployment", "fleet", "a-md"), b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "a-cp")
	b.patch(t, md, `{"metadata":{"annotations":{"test.io/x":"y"}},"spec":{"template":{"metadata":{"labels":{"x":"y"}},"spec":{"minReadySeconds":5,"deletion":{"nodeDrainTimeoutSeconds":60}}}}}`)
	b.patch(t, cp, `{"metadata":{"annotations":{"test.io/x":"y"}},"spec":{"kubeadmConfigSpec":{"format":"cloud-config"},"machineTemplate":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":60}}}}}`)
	r := <-got
	if r.code != problem.ExitStopped && r.code != problem.ExitFailed {
		t.Errorf("exit %d", r.code)
	}
	lacks(t, r, "FenceViolated")
	if paused, _, _ := unstructured.NestedBool(b.get(t, coreAPI, "Cluster", "fleet", "a").Object, "spec", "paused"); paused {
		t.Error("the cluster is paused although nothing rolls")
	}
}
