// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A workload cluster of these tests is a Cluster "name" in namespace fleet, with a KubeadmControlPlane name-cp of three
// Machines name-cp-0…2, and a MachineDeployment name-md of two Machines name-md-0…1 in MachineSet name-md-a. All is at rest.

const (
	coreAPI      = "cluster.x-k8s.io/v1beta2"
	planeAPI     = "controlplane.cluster.x-k8s.io/v1beta2"
	bootstrapAPI = "bootstrap.cluster.x-k8s.io/v1beta2"
	fleetVersion = "v1.35.0"
)

// workloadText is the YAML of a workload cluster.
func workloadText(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: %[1]s-cp, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}
spec:
  replicas: 3
  version: %[2]s
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DemoMachineTemplate, name: %[1]s-cp-1}}}
  kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /etc/kubernetes/pki}}
status: {replicas: 3, readyReplicas: 3, availableReplicas: 3, upToDateReplicas: 3}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %[1]s, namespace: fleet}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: %[1]s-cp}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DemoCluster, name: %[1]s}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: %[1]s-md, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}
spec:
  clusterName: %[1]s
  replicas: 2
  selector: {matchLabels: {pool: %[1]s-md}}
  template: %[3]s
status: {replicas: 2, readyReplicas: 2, availableReplicas: 2, upToDateReplicas: 2, phase: Running}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: %[1]s-md-a, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: %[1]s, cluster.x-k8s.io/deployment-name: %[1]s-md}}
spec:
  clusterName: %[1]s
  replicas: 2
  selector: {matchLabels: {pool: %[1]s-md}}
  template: %[3]s
status: {replicas: 2, readyReplicas: 2, availableReplicas: 2}
`, name, fleetVersion, poolTemplate(name))
	for i := range 3 {
		b.WriteString("---" + machineText(name, fmt.Sprintf("%s-cp-%d", name, i), `cluster.x-k8s.io/control-plane: ""`))
	}
	for i := range 2 {
		b.WriteString("---" + machineText(name, fmt.Sprintf("%s-md-%d", name, i), fmt.Sprintf("cluster.x-k8s.io/deployment-name: %s-md, cluster.x-k8s.io/set-name: %s-md-a", name, name)))
	}
	return b.String()
}

func poolTemplate(name string) string {
	return fmt.Sprintf(`{metadata: {labels: {pool: %[1]s-md}}, spec: {clusterName: %[1]s, version: %[2]s, `+
		`bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: %[1]s-md}}, `+
		`infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DemoMachineTemplate, name: %[1]s-md-1}}}`, name, fleetVersion)
}

// machineText is the YAML of a Machine that runs.
func machineText(cluster, name, labels string) string {
	return fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[2]s, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: %[1]s, %[3]s}}
spec:
  clusterName: %[1]s
  version: %[4]s
  providerID: demo://%[2]s
  bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: %[2]s}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DemoMachine, name: %[2]s}
status: {phase: Running, nodeRef: {name: %[2]s}}
`, cluster, name, labels, fleetVersion)
}

// withClusters returns a bed with workload clusters at rest.
func withClusters(t *testing.T, names ...string) *bed {
	t.Helper()
	b := newFleetBed(t)
	for _, n := range names {
		b.apply(t, workloadText(n))
	}
	return b
}

// settingsRelease is a release of a plain manifest, so that there is something to upgrade.
func settingsRelease(t *testing.T, version string) string {
	t.Helper()
	return writeRelease(t, version, "", part{name: "tool", version: version, manifests: "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: settings, namespace: default}\ndata: {version: " + version + "}\n"})
}

// machineUIDs lists the Machines of a cluster with their UIDs.
func (b *bed) machineUIDs(t *testing.T, cluster string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for i := range 3 {
		name := fmt.Sprintf("%s-cp-%d", cluster, i)
		out[name] = string(b.get(t, coreAPI, "Machine", "fleet", name).GetUID())
	}
	for i := range 2 {
		name := fmt.Sprintf("%s-md-%d", cluster, i)
		out[name] = string(b.get(t, coreAPI, "Machine", "fleet", name).GetUID())
	}
	return out
}

// ownKubeconfig is the Secret with a cluster's kubeconfig, which leads to the bed itself.
func (b *bed) ownKubeconfig(t *testing.T, cluster string) string {
	t.Helper()
	data, err := os.ReadFile(b.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %[1]s-kubeconfig, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}\ntype: cluster.x-k8s.io/secret\ndata: {value: %[2]s}\n",
		cluster, base64.StdEncoding.EncodeToString(data))
}

func deployments() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}
