// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// account is the smallest thing that a provider can consist of.
func account(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: manager, namespace: %s-system}\n", name)
}

// kubeadmProvider is a control plane provider at a version.
func kubeadmProvider(version string) part {
	return part{name: "kubeadm", version: version, provider: "ControlPlaneProvider", manifests: account("kubeadm")}
}

// kubeadmCluster makes a Cluster with a kubeadm control plane that asks for a Kubernetes version.
func (b *bed) kubeadmCluster(t *testing.T, namespace, name, version string) {
	t.Helper()
	b.apply(t, fmt.Sprintf(`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: %[2]s, namespace: %[1]s, labels: {cluster.x-k8s.io/cluster-name: %[2]s}}
spec:
  replicas: 3
  version: %[3]s
  kubeadmConfigSpec: {format: cloud-config}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DockerMachineTemplate, name: %[2]s}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: %[2]s}
`, namespace, name, version))
}

func TestC01_KubernetesPatchThatTheProviderCannotRoll(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	b.installed(t, kubeadmProvider("v1.12.6"))
	b.kubeadmCluster(t, "team-a", "moving", "v1.35.5")
	b.kubeadmCluster(t, "team-b", "older", "v1.34.6")

	bad := writeRelease(t, "v1.1.0", "", kubeadmProvider("v1.12.7"))
	said := []string{
		"CAP-KNOWN-RISK", "control-plane-kubeadm v1.12.7", "Kubernetes v1.35.5 of cluster team-a/moving",
		"go to control-plane-kubeadm v1.12.8 or later first", "kubectl create clusterrolebinding kubeadm:apiserver-kubelet-client",
		"https://github.com/kubernetes-sigs/cluster-api/issues/13770",
	}
	b.refused(t, b.capstan(t, "plan", bad), said...)
	b.refused(t, b.capstan(t, "upgrade", bad, "--yes"), said...)
	lacks(t, b.capstan(t, "plan", bad), "team-b/older")

	good := writeRelease(t, "v1.1.0", "", kubeadmProvider("v1.12.8"))
	want(t, b.capstan(t, "plan", good), problem.ExitDone, "Before the upgrade", "this upgrade ends it")
	accepted := b.capstan(t, "plan", bad, "--accept", "CAP-KNOWN-RISK=the binding is made by our addons")
	want(t, accepted, problem.ExitDone, "Accepted: the binding is made by our addons")

	without := writeRelease(t, "v1.1.0", "", part{name: "tool", version: "v1.0.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n"})
	b.refused(t, b.capstan(t, "plan", without), "CAP-KNOWN-RISK", "control-plane-kubeadm v1.12.6", "Kubernetes v1.35.5 of cluster team-a/moving", "v1.12.8 or later")
}

func TestC01_KnowledgeComesWithTheReleaseOrFromTheOperator(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	tool := part{name: "tool", version: "v1.4.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n"}
	risk := `
- id: tool-forgets
  when: {component: tool, version: ">=1.4.0 <1.4.2"}
  summary: it forgets what it was told
  sources: ["https://example.com/tool/17"]
`
	own := writeRelease(t, "v1.1.0", "knownRisks:\n"+indent(risk, "  "), tool)
	said := []string{"CAP-KNOWN-RISK", "tool-forgets", "tool v1.4.0", "it forgets what it was told", "go to tool v1.4.2 or later first", "https://example.com/tool/17"}
	b.refused(t, b.capstan(t, "plan", own), said...)

	plain := writeRelease(t, "v1.1.0", "", tool)
	want(t, b.capstan(t, "plan", plain), problem.ExitDone)
	knowledge := filepath.Join(t.TempDir(), "knowledge.yaml")
	file(t, knowledge, "risks:\n"+indent(risk, "  "))
	b.refused(t, b.capstan(t, "plan", plain, "--knowledge", knowledge), said...)
	b.refused(t, b.capstan(t, "upgrade", plain, "--knowledge", knowledge, "--yes"), said...)

	file(t, knowledge, "risks:\n- {id: x, when: {component: tool, version: newest}, summary: s, sources: [\"https://example.com\"]}\n")
	want(t, b.capstan(t, "plan", plain, "--knowledge", knowledge), problem.ExitUsage, "is not a list of bounds")
}
