// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

// infrastructure are kinds of a made-up provider and metal3's hosts.
const infrastructure = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: devmachines.infrastructure.cluster.x-k8s.io}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: DevMachine, plural: devmachines, singular: devmachine, listKind: DevMachineList}
  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: metal3machines.infrastructure.cluster.x-k8s.io}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: Metal3Machine, plural: metal3machines, singular: metal3machine, listKind: Metal3MachineList}
  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: baremetalhosts.metal3.io}
spec:
  group: metal3.io
  scope: Namespaced
  names: {kind: BareMetalHost, plural: baremetalhosts, singular: baremetalhost, listKind: BareMetalHostList}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func TestC76_ObjectsLeftPaused(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	b.apply(t, infrastructure)
	for _, name := range []string{"spec", "cp", "md", "mdspec", "machine", "infra", "host", "run"} {
		b.fleetCluster(t, name, "", controlPlane{version: "v1.33.4"}, pool{name: name + "-w", version: "v1.33.4", replicas: 1})
	}
	const capi, annotation = "cluster.x-k8s.io/v1beta2", `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`
	b.patch(t, b.get(t, capi, "Cluster", "default", "spec"), `{"spec":{"paused":true}}`)
	b.patch(t, b.get(t, "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "default", "cp-cp"), annotation)
	b.patch(t, b.get(t, capi, "MachineDeployment", "default", "md-w"), annotation)
	b.patch(t, b.get(t, capi, "MachineDeployment", "default", "mdspec-w"), `{"spec":{"paused":true}}`)
	b.patch(t, b.get(t, capi, "Machine", "default", "machine-w-0"), annotation)
	b.apply(t, "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: DevMachine\nmetadata: {name: infra-w-0, namespace: default, annotations: {cluster.x-k8s.io/paused: \"\"}}\n")
	b.patch(t, b.get(t, capi, "Machine", "default", "host-w-0"), `{"spec":{"infrastructureRef":{"kind":"Metal3Machine","name":"m3"}}}`)
	b.apply(t, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Machine
metadata: {name: m3, namespace: default}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: rack-1, namespace: default, annotations: {baremetalhost.metal3.io/paused: metal3.io/capm3}}
spec: {consumerRef: {kind: Metal3Machine, name: m3, namespace: default}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: free, namespace: default, annotations: {baremetalhost.metal3.io/paused: ""}}
`)
	b.patch(t, b.get(t, capi, "Cluster", "default", "run"), `{"metadata":{"annotations":{"capstan.dev/paused-by":"to-v9-20260101-000000"}},"spec":{"paused":true}}`)

	for cluster, pieces := range map[string][]string{
		"spec":    {"Cluster default/spec is paused by spec.paused", "set by test", "not by Capstan", `'{"spec":{"paused":null}}'`},
		"cp":      {"KubeadmControlPlane default/cp-cp is paused by annotation cluster.x-k8s.io/paused", "cluster.x-k8s.io/paused-"},
		"md":      {"MachineDeployment default/md-w is paused by annotation cluster.x-k8s.io/paused"},
		"mdspec":  {"MachineDeployment default/mdspec-w is paused by spec.paused"},
		"machine": {"Machine default/machine-w-0 is paused by annotation"},
		"infra":   {"DevMachine default/infra-w-0 is paused by annotation cluster.x-k8s.io/paused"},
		"host":    {"BareMetalHost default/rack-1 is paused by annotation baremetalhost.metal3.io/paused"},
		"run":     {"Cluster default/run is paused by spec.paused, set by Capstan's run to-v9-20260101-000000", "capstan abort"},
	} {
		t.Run(cluster, func(t *testing.T) {
			r := b.capstan(t, "nodes", "plan", "--cluster", cluster)
			b.refused(t, r, append(pieces, "CAP-PAUSED", "Blocked: 1 finding")...)
		})
	}
	t.Run("status lists what Capstan holds and what is paused", func(t *testing.T) {
		want(t, b.capstan(t, "status"), problem.ExitDone, "HELD", "Cluster default/run is paused by spec.paused, set by Capstan's run to-v9-20260101-000000", "PAUSED", "Cluster default/spec")
		want(t, b.capstan(t, "status", "-o", "json"), problem.ExitDone, `"run": "to-v9-20260101-000000"`, `"where": "spec.paused"`)
	})
	t.Run("a plan for the platform warns", func(t *testing.T) {
		r := b.capstan(t, "plan", writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"}))
		want(t, r, problem.ExitDone, "WARN  CAP-PAUSED", "Cluster default/spec")
	})
	if w := b.writes(t); len(w) > 0 {
		t.Errorf("Capstan wrote: %v", w)
	}
}
