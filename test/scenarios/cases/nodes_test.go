// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"testing"
)

// pool is a MachineDeployment under test with its Machines.
type pool struct {
	name, version string
	replicas      int
	// nodes is the version that its nodes report; empty is version.
	nodes string
	// more is YAML for the spec of the MachineDeployment.
	more string
	// template is YAML for the spec of the KubeadmConfigTemplate's template, empty for none.
	template string
	// unsettled tells that the status is not that of a finished roll.
	unsettled bool
}

// controlPlane is a KubeadmControlPlane under test.
type controlPlane struct {
	version  string
	reached  string
	replicas int
	// config is YAML for clusterConfiguration, more for the spec.
	config, more string
	annotations  string
}

// fleetCluster applies a cluster as its controllers would have left it: default/NAME with a control plane NAME-cp.
func (b *bed) fleetCluster(t *testing.T, name, spec string, cp controlPlane, pools ...pool) {
	t.Helper()
	if cp.replicas == 0 {
		cp.replicas = 3
	}
	if cp.reached == "" {
		cp.reached = cp.version
	}
	var y strings.Builder
	fmt.Fprintf(&y, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %[1]s, namespace: default, labels: {of: %[1]s}}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: %[1]s-cp}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: %[1]s}
%[2]s
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: %[1]s-cp, namespace: default, labels: {cluster.x-k8s.io/cluster-name: %[1]s}, annotations: {%[7]s}}
spec:
  replicas: %[3]d
  version: %[4]s
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: %[1]s-cp}}}
%[6]s
%[8]s
status: {version: %[5]s, replicas: %[3]d, readyReplicas: %[3]d, availableReplicas: %[3]d, upToDateReplicas: %[3]d}
`, name, indent(spec, "  "), cp.replicas, cp.version, cp.reached, kubeadmConfig(cp.config), cp.annotations, indent(cp.more, "  "))
	for _, p := range pools {
		y.WriteString(p.yaml(name))
	}
	b.apply(t, y.String())
}

func kubeadmConfig(clusterConfiguration string) string {
	if clusterConfiguration == "" {
		return ""
	}
	return "  kubeadmConfigSpec:\n    clusterConfiguration:\n" + indent(clusterConfiguration, "      ")
}

func (p pool) yaml(cluster string) string {
	var y strings.Builder
	status := fmt.Sprintf("{replicas: %[1]d, readyReplicas: %[1]d, availableReplicas: %[1]d, upToDateReplicas: %[1]d}", p.replicas)
	if p.unsettled {
		status = fmt.Sprintf("{replicas: %[1]d, readyReplicas: %[1]d, availableReplicas: %[1]d, upToDateReplicas: 0}", p.replicas)
	}
	fmt.Fprintf(&y, `
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: %[2]s, namespace: default, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}
spec: {template: {spec: {format: cloud-config, %[6]s}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: %[2]s, namespace: default, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}
spec:
  clusterName: %[1]s
  replicas: %[4]d
  selector: {matchLabels: {pool: %[2]s}}
%[7]s
  template:
    metadata: {labels: {pool: %[2]s}}
    spec:
      clusterName: %[1]s
      version: %[3]s
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: %[2]s}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: %[2]s}
status: %[5]s
`, cluster, p.name, p.version, p.replicas, status, p.template, indent(p.more, "  "))
	node := p.nodes
	if node == "" {
		node = p.version
	}
	for i := range p.replicas {
		fmt.Fprintf(&y, `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: %[2]s-%[5]d
  namespace: default
  labels: {cluster.x-k8s.io/cluster-name: %[1]s, cluster.x-k8s.io/deployment-name: %[2]s, cluster.x-k8s.io/set-name: %[2]s-1}
spec:
  clusterName: %[1]s
  version: %[3]s
  bootstrap: {dataSecretName: x}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachine, name: %[2]s-%[5]d}
status:
  nodeRef: {name: %[2]s-%[5]d}
  nodeInfo: {architecture: amd64, bootID: a, containerRuntimeVersion: a, kernelVersion: a, kubeProxyVersion: "%[4]s", kubeletVersion: "%[4]s", machineID: a, operatingSystem: linux, osImage: a, systemUUID: a}
`, cluster, p.name, p.version, node, i)
	}
	return y.String()
}
