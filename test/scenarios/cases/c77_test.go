// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC77_WorkersThatSilentlyStayOld(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	b.fleetCluster(t, "a", "", controlPlane{version: "v1.31.2", reached: "v1.30.4"}, pool{name: "a-w", version: "v1.31.2", nodes: "v1.30.4", replicas: 3, unsettled: true})
	b.apply(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: a-w-1, namespace: default, labels: {cluster.x-k8s.io/cluster-name: a, cluster.x-k8s.io/deployment-name: a-w}}
spec:
  clusterName: a
  replicas: 3
  selector: {matchLabels: {pool: a-w}}
  template:
    metadata: {labels: {pool: a-w}}
    spec:
      clusterName: a
      version: v1.31.2
      bootstrap: {dataSecretName: x}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: a-w}
status:
  conditions:
    - type: ScalingUp
      status: "True"
      reason: ScalingUp
      message: "Scaling up from 0 to 3 replicas is blocked because:\n* KubeadmControlPlane default/a-cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)"
      lastTransitionTime: "2026-01-01T00:00:00Z"
`)
	b.fleetCluster(t, "silent", "", controlPlane{version: "v1.31.2", reached: "v1.30.4"}, pool{name: "silent-w", version: "v1.31.2", nodes: "v1.30.4", replicas: 3, unsettled: true})
	t.Run("A: status names the preflight and what it waits for", func(t *testing.T) {
		want(t, b.capstan(t, "status"), problem.ExitDone, "3 at v1.30.4", "v1.31.2",
			"MachineDeployment default/a-w of cluster default/a is held by the preflight check ControlPlaneIsStable: KubeadmControlPlane default/a-cp is upgrading",
			"MachineDeployment default/silent-w of cluster default/silent is held by the preflight check ControlPlaneIsStable: it waits for KubeadmControlPlane default/silent-cp to reach v1.31.2, which is at v1.30.4")
		want(t, b.capstan(t, "status", "-o", "json"), problem.ExitDone, `"wanted": "v1.31.2"`, `"v1.30.4": 3`, `"state": "Held"`)
	})
	t.Run("A: a plan is refused", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "a"), "CAP-NODE-PREFLIGHT", "ControlPlaneIsStable", "CAP-VERSION-SKEW", "still on its way from v1.30.4 to v1.31.2")
	})

	b.fleetCluster(t, "b", "", controlPlane{version: "v1.31.2"},
		pool{name: "w", version: "v1.31.2", nodes: "v1.30.4", replicas: 3, template: "preKubeadmCommands: [apt-get install -y kubelet=1.30.4-1.1]"})
	const fault = "ool w: 3 of 3 nodes at v1.30.4, wanted v1.31.2, roll finished"
	t.Run("B: status is a fault", func(t *testing.T) {
		want(t, b.capstan(t, "status"), problem.ExitFailed, "FAULT", fault)
		want(t, b.capstan(t, "status", "-o", "json"), problem.ExitFailed, `"state": "Behind"`, fault)
	})
	t.Run("B: a plan is refused and names the template", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "b"), "CAP-POOL-BEHIND", fault, "KubeadmConfigTemplate w carries 1.30.4 in spec.template.spec.preKubeadmCommands[0]", "CAP-BOOTSTRAP-VERSION")
	})
	t.Run("nodes that follow are no fault", func(t *testing.T) {
		for i := range 3 {
			name := []string{"w-0", "w-1", "w-2"}[i]
			b.patch(t, b.get(t, "cluster.x-k8s.io/v1beta2", "Machine", "default", name), `{"status":{"nodeInfo":{"kubeletVersion":"v1.31.2+vendor.1"}}}`, "status")
		}
		want(t, b.capstan(t, "status"), problem.ExitDone, "3 at v1.31.2+vendor.1")
	})
}
