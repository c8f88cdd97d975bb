// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC30_UpgradeDuringARollout(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a", "b", "c", "d")
	next := settingsRelease(t, "v1.0.0")

	t.Run("a fleet at rest is no hindrance", func(t *testing.T) {
		r := b.capstan(t, "plan", next)
		want(t, r, problem.ExitDone)
		lacks(t, r, "CAP-FLEET-MOVING", "CAP-LATENT-ROLLOUT", "CAP-SELF-HOSTED", "CAP-JOIN-CONFIGURATION")
	})
	t.Run("a control plane in the middle of a roll", func(t *testing.T) {
		cp := b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "a-cp")
		b.patch(t, cp, `{"status":{"replicas":4,"upToDateReplicas":2,"conditions":[{"type":"RollingOut","status":"True","reason":"RollingOut","message":"Rolling out 2 not up-to-date replicas\n* Version v1.34.0, v1.35.0 required","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
		for _, command := range [][]string{{"plan", next}, {"upgrade", next, "--yes"}} {
			r := b.capstan(t, command...)
			b.refused(t, r, "CAP-FLEET-MOVING", "Cluster fleet/a", "fleet/a-cp", "4 of 3 Machines", "2 of 4 Machines up to date", "RollingOut")
			lacks(t, r, "Cluster fleet/b", "Cluster fleet/c")
		}
	})
	t.Run("every owner that moves is listed beside it", func(t *testing.T) {
		set := objects(t, workloadText("b"))[3]
		set.SetName("b-md-b")
		set.SetNamespace("fleet")
		if _, err := b.of(t, set).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		m := b.get(t, coreAPI, "Machine", "fleet", "c-md-1")
		b.patch(t, m, `{"metadata":{"finalizers":["test.io/hold"]}}`)
		if err := b.of(t, m).Delete(t.Context(), m.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r := b.capstan(t, "plan", next)
		b.refused(t, r, "fleet/a-cp", "2 MachineSets (b-md-a, b-md-b)", "Cluster fleet/c", "1 Machine being deleted (c-md-1)")
		lacks(t, r, "Cluster fleet/d")
	})
	t.Run("it can be accepted by name", func(t *testing.T) {
		want(t, b.capstan(t, "plan", next, "--accept", "CAP-FLEET-MOVING=they are ours"), problem.ExitDone, "Accepted: they are ours")
	})
	t.Run("a paused cluster does not go on by itself", func(t *testing.T) {
		for _, name := range []string{"a", "b", "c"} {
			b.patch(t, b.get(t, coreAPI, "Cluster", "fleet", name), `{"spec":{"paused":true}}`)
		}
		want(t, b.capstan(t, "plan", next), problem.ExitDone, "WARN", "Cluster fleet/a is paused in the middle of a change")
		for _, name := range []string{"a", "b", "c"} {
			b.patch(t, b.get(t, coreAPI, "Cluster", "fleet", name), `{"spec":{"paused":false}}`)
		}
	})
	t.Run("--wait waits until nothing moves", func(t *testing.T) {
		got := make(chan result, 1)
		go func() { got <- b.capstan(t, "plan", next, "--wait=2m") }()
		// It has looked at least once while all moves; each of the three comes to rest, one after the other.
		b.patch(t, b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "a-cp"), `{"status":{"replicas":3,"upToDateReplicas":3,"conditions":[]}}`, "status")
		b.patch(t, b.get(t, coreAPI, "MachineSet", "fleet", "b-md-b"), `{"spec":{"replicas":0},"status":{"replicas":0}}`)
		b.patch(t, b.get(t, coreAPI, "MachineSet", "fleet", "b-md-b"), `{"status":{"replicas":0}}`, "status")
		select {
		case r := <-got:
			t.Fatalf("it did not wait for the Machine that is being deleted: exit %d\n%s%s", r.code, r.stdout, r.stderr)
		case <-time.After(5 * time.Second):
		}
		b.patch(t, b.get(t, coreAPI, "Machine", "fleet", "c-md-1"), `{"metadata":{"finalizers":[]}}`)
		r := <-got
		want(t, r, problem.ExitDone, "Waiting for the fleet", "c-md-1")
	})
}

// TestC30_OlderWords is the same in the words of API version v1beta1, and of owners of other kinds.
func TestC30_OlderWords(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a")
	next := settingsRelease(t, "v1.0.0")
	for name, text := range map[string]string{
		"a MachinePool that is being scaled": `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: pool, namespace: fleet}
spec:
  clusterName: a
  replicas: 3
  template: {spec: {clusterName: a, bootstrap: {dataSecretName: x}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DemoPool, name: pool}}}
status: {replicas: 2, phase: ScalingUp}`,
		"a Machine that is being provisioned": machineText("a", "a-md-2", "cluster.x-k8s.io/deployment-name: a-md, cluster.x-k8s.io/set-name: a-md-a") +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: fleet}",
	} {
		t.Run(name, func(t *testing.T) {
			made := b.apply(t, text)[0]
			if made.GetKind() == "Machine" {
				b.patch(t, made, `{"status":{"phase":"Provisioning","nodeRef":null}}`, "status")
			}
			b.refused(t, b.capstan(t, "plan", next), "CAP-FLEET-MOVING", "Cluster fleet/a")
			if err := b.of(t, made).Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("a pool that waits for a person to delete Machines", func(t *testing.T) {
		md := b.get(t, coreAPI, "MachineDeployment", "fleet", "a-md")
		b.patch(t, md, `{"spec":{"rollout":{"strategy":{"type":"OnDelete"}}}}`)
		b.patch(t, md, `{"status":{"upToDateReplicas":0,"conditions":[{"type":"RollingOut","status":"True","reason":"RollingOut","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
		want(t, b.capstan(t, "plan", next), problem.ExitDone, "WARN", "OnDelete")
	})
}

// TestC30_UnreachableClusterWarns is a cluster that has nothing to do with any rollout and does not answer.
func TestC30_UnreachableClusterWarns(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a")
	b.apply(t, kubeconfigSecret("a", "https://127.0.0.1:1"))
	want(t, b.capstan(t, "plan", settingsRelease(t, "v1.0.0")), problem.ExitDone, "WARN", "CAP-CLUSTER-UNREACHABLE", "Cluster fleet/a does not answer")
}

// kubeconfigSecret is where Cluster API keeps the kubeconfig of a workload cluster.
func kubeconfigSecret(cluster, server string) string {
	return `
apiVersion: v1
kind: Secret
metadata: {name: ` + cluster + `-kubeconfig, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: ` + cluster + `}}
type: cluster.x-k8s.io/secret
stringData:
  value: |
    apiVersion: v1
    kind: Config
    current-context: x
    contexts: [{name: x, context: {cluster: x, user: x}}]
    clusters: [{name: x, cluster: {server: "` + server + `", insecure-skip-tls-verify: true}}]
    users: [{name: x, user: {token: none}}]
`
}
