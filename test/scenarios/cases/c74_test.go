// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC74_LifecycleHookThatKeepsBlocking(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	b.apply(t, `
apiVersion: runtime.cluster.x-k8s.io/v1beta2
kind: ExtensionConfig
metadata: {name: gatekeeper}
spec:
  clientConfig: {url: "https://hooks.example.org/"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
status:
  conditions: [{type: Discovered, status: "True", reason: Discovered, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
  handlers:
    - {name: before.gatekeeper, requestHook: {apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: BeforeClusterUpgrade}, timeoutSeconds: 10, failurePolicy: Fail}
    - {name: delete.gatekeeper, requestHook: {apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: BeforeClusterDelete}, timeoutSeconds: 10, failurePolicy: Fail}
---
apiVersion: runtime.cluster.x-k8s.io/v1beta2
kind: ExtensionConfig
metadata: {name: elsewhere}
spec:
  clientConfig: {url: "https://hooks.example.org/"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}
status:
  conditions: [{type: Discovered, status: "True", reason: Discovered, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
  handlers:
    - {name: before.elsewhere, requestHook: {apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: BeforeClusterUpgrade}, timeoutSeconds: 10, failurePolicy: Fail}
`)
	topology := "topology: {classRef: {name: quick}, version: v1.33.4}\n"
	b.fleetCluster(t, "classy", topology, controlPlane{version: "v1.33.4"}, pool{name: "classy-w", version: "v1.33.4", replicas: 1})
	b.fleetCluster(t, "plain", "", controlPlane{version: "v1.33.4"}, pool{name: "plain-w", version: "v1.33.4", replicas: 1})

	t.Run("the plan lists the hooks that will be called", func(t *testing.T) {
		r := b.capstan(t, "nodes", "plan", "--cluster", "classy", "--version", "v1.34.1", "--with-control-plane")
		want(t, r, problem.ExitDone, "CAP-LIFECYCLE-HOOK", "Hook BeforeClusterUpgrade of ExtensionConfig gatekeeper", "before.gatekeeper", "default/classy")
		lacks(t, r, "BeforeClusterDelete", "elsewhere")
		lacks(t, b.capstan(t, "nodes", "plan", "--cluster", "plain", "--version", "v1.34.1", "--with-control-plane"), "CAP-LIFECYCLE-HOOK")
	})
	t.Run("workers can't leave the topology", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "classy", "--version", "v1.34.1"), "CAP-VERSION-SKEW", "topology", "--with-control-plane")
	})

	since := time.Now().Add(-90 * time.Minute).UTC().Format(time.RFC3339)
	b.patch(t, b.get(t, "cluster.x-k8s.io/v1beta2", "Cluster", "default", "classy"), `{"spec":{"topology":{"version":"v1.34.1"}}}`)
	b.patch(t, b.get(t, "cluster.x-k8s.io/v1beta2", "Cluster", "default", "classy"), `{"status":{"conditions":[{"type":"TopologyReconciled","status":"False","reason":"ClusterUpgrading",
		"message":"Cluster is upgrading to v1.34.1\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: backup is not done yet; trying again\n  * KubeadmControlPlane pending upgrade to version v1.34.1",
		"lastTransitionTime":"`+since+`"}]}}`, "status")
	t.Run("status names hook, extension, message and age", func(t *testing.T) {
		want(t, b.capstan(t, "status"), problem.ExitDone, "Cluster default/classy waits on its way to v1.34.1 for hook BeforeClusterUpgrade of ExtensionConfig gatekeeper",
			"backup is not done yet; trying again", "1 h 30 min")
		want(t, b.capstan(t, "status", "-o", "json"), problem.ExitDone, `"hook": "BeforeClusterUpgrade"`, `"gatekeeper"`, `"message": "backup is not done yet; trying again"`, `"age": "1h30m`)
	})
	t.Run("a plan for a cluster that is held", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "classy"), "CAP-LIFECYCLE-HOOK", "waits on its way to v1.34.1 for hook BeforeClusterUpgrade")
	})
}
