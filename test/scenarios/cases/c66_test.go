// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

// kubeadmConfig is the configuration of a control plane Machine; spec is YAML in braces.
func (b *bed) kubeadmConfig(t *testing.T, cluster, machine, spec string) {
	t.Helper()
	uid := b.get(t, coreAPI, "Machine", "fleet", machine).GetUID()
	b.apply(t, fmt.Sprintf(`
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata:
  name: %[2]s
  namespace: fleet
  labels: {cluster.x-k8s.io/cluster-name: %[1]s, cluster.x-k8s.io/control-plane: "", cluster.x-k8s.io/control-plane-name: %[1]s-cp}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: %[2]s, uid: %[3]s, controller: true}]
spec: %[4]s
`, cluster, machine, uid, spec))
}

const (
	initSpec     = `{initConfiguration: {nodeRegistration: {name: x}}, clusterConfiguration: {certificatesDir: /etc/kubernetes/pki}}`
	joinSpec     = `{clusterConfiguration: {certificatesDir: /etc/kubernetes/pki}, joinConfiguration: {controlPlane: {localAPIEndpoint: {bindPort: 6443}}, nodeRegistration: {name: x}}}`
	damagedSpec  = `{clusterConfiguration: {certificatesDir: /etc/kubernetes/pki}, joinConfiguration: {nodeRegistration: {name: x}}}`
	argumentSpec = `{joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: cloud-provider, value: external}]}}}`
	timeoutSpec  = `{initConfiguration: {nodeRegistration: {name: x}}, joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 240}}}`
)

func TestC66_JoinedMachineWithoutItsSection(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a", "healthy", "moved", "bare")
	for machine, spec := range map[string]string{"a-cp-0": initSpec, "a-cp-1": joinSpec, "a-cp-2": damagedSpec} {
		b.kubeadmConfig(t, "a", machine, spec)
	}
	// A first Machine that was read from v1beta1, and one whose configuration says nothing at all.
	for machine, spec := range map[string]string{"healthy-cp-0": timeoutSpec, "healthy-cp-1": joinSpec, "healthy-cp-2": joinSpec} {
		b.kubeadmConfig(t, "healthy", machine, spec)
	}
	for machine, spec := range map[string]string{"moved-cp-0": `{format: cloud-config}`, "moved-cp-1": joinSpec, "moved-cp-2": joinSpec} {
		b.kubeadmConfig(t, "moved", machine, spec)
	}
	// The whole section is gone, and who was first is known.
	for machine, spec := range map[string]string{"bare-cp-0": initSpec, "bare-cp-1": joinSpec, "bare-cp-2": `{format: cloud-config}`} {
		b.kubeadmConfig(t, "bare", machine, spec)
	}
	provider := func(version string) string {
		return writeRelease(t, "v1.0.0", "", providerPart("kubeadm", "ControlPlaneProvider", version, ""))
	}
	const id = "CAP-JOIN-CONFIGURATION"

	r := b.capstan(t, "upgrade", provider("v1.13.4"), "--yes")
	b.refused(t, r, id, "Machine fleet/a-cp-2", "KubeadmConfig fleet/a-cp-2", "spec.joinConfiguration.controlPlane", "Machine fleet/bare-cp-2")
	lacks(t, r, "a-cp-0", "a-cp-1", "healthy", "moved", "bare-cp-0", "bare-cp-1")

	t.Run("it can be accepted by name", func(t *testing.T) {
		want(t, b.capstan(t, "plan", provider("v1.13.4"), "--accept", id+"=they may roll"), problem.ExitDone, "Accepted: they may roll")
	})
	t.Run("a release that reads it right is no danger", func(t *testing.T) {
		r := b.capstan(t, "plan", provider("v1.11.3"))
		want(t, r, problem.ExitDone)
		lacks(t, r, id)
	})
	t.Run("the remedy heals it", func(t *testing.T) {
		for _, name := range []string{"a-cp-2", "bare-cp-2"} {
			b.patch(t, b.get(t, bootstrapAPI, "KubeadmConfig", "fleet", name), `{"spec":{"joinConfiguration":{"controlPlane":{}}}}`)
		}
		r := b.capstan(t, "plan", provider("v1.13.4"))
		want(t, r, problem.ExitDone)
		lacks(t, r, id)
	})
	t.Run("later releases know a Machine by its kubelet's arguments", func(t *testing.T) {
		b.kubeadmConfig(t, "a", "a-cp-1", argumentSpec)
		b.refused(t, b.capstan(t, "plan", provider("v1.14.0")), id, "a-cp-1")
		r := b.capstan(t, "plan", provider("v1.14.2"))
		want(t, r, problem.ExitDone)
		lacks(t, r, id)
	})
	t.Run("what does not move reads nothing anew", func(t *testing.T) {
		want(t, b.capstan(t, "plan", writeRelease(t, "v1.0.0", "", providerPart("demo", "InfrastructureProvider", "v1.0.0", ""))), problem.ExitDone, "WARN", id)
	})
}
