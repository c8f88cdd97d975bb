// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestSettingsOfAPoolInTheWordsOfEitherVersion(t *testing.T) {
	t.Parallel()
	const cp, md = "controlplane.cluster.x-k8s.io/", "cluster.x-k8s.io/"
	path := func(parts ...string) []string { return parts }
	for name, tc := range map[string]struct {
		version, kind, metadata, spec string
		want                          world.PoolOwner
	}{
		"a control plane in v1beta2": {
			version: cp + "v1beta2", kind: "KubeadmControlPlane",
			spec: `{replicas: 3, version: v1.35.0, rollout: {strategy: {rollingUpdate: {maxSurge: 0}}},
				machineTemplate: {spec: {infrastructureRef: {name: tmpl}, deletion: {nodeDrainTimeoutSeconds: 600}}}}`,
			want: world.PoolOwner{
				ControlPlane: true, Replicas: 3, Etcd: world.EtcdStacked, Version: "v1.35.0", VersionPath: "spec.version",
				TemplateName: "tmpl", TemplateRef: "spec.machineTemplate.spec.infrastructureRef.name", StrategyType: "RollingUpdate", DrainTimeout: "10m0s",
				MaxSurge: world.Setting{Path: path("spec", "rollout", "strategy", "rollingUpdate", "maxSurge"), Value: "0"},
			},
		},
		"a control plane in v1beta1": {
			version: cp + "v1beta1", kind: "KubeadmControlPlane",
			spec: `{replicas: 1, version: v1.35.0, rolloutStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}},
				machineTemplate: {infrastructureRef: {name: tmpl}, nodeDrainTimeout: 5m}, kubeadmConfigSpec: {clusterConfiguration: {etcd: {external: {endpoints: [a]}}}}}`,
			want: world.PoolOwner{
				ControlPlane: true, Replicas: 1, Etcd: world.EtcdExternal, Version: "v1.35.0", VersionPath: "spec.version",
				TemplateName: "tmpl", TemplateRef: "spec.machineTemplate.infrastructureRef.name", StrategyType: "RollingUpdate", DrainTimeout: "5m0s",
				MaxSurge: world.Setting{Path: path("spec", "rolloutStrategy", "rollingUpdate", "maxSurge"), Value: "1"},
			},
		},
		"workers in v1beta2 that say nothing": {
			version: md + "v1beta2", kind: "MachineDeployment", metadata: "labels: {topology.cluster.x-k8s.io/owned: ''}",
			spec: `{replicas: 2, template: {spec: {version: v1.34.0, infrastructureRef: {name: tmpl}}}}`,
			want: world.PoolOwner{
				Replicas: 2, Version: "v1.34.0", VersionPath: "spec.template.spec.version", Topology: true,
				TemplateName: "tmpl", TemplateRef: "spec.template.spec.infrastructureRef.name", StrategyType: "RollingUpdate",
				MaxSurge:       world.Setting{Path: path("spec", "rollout", "strategy", "rollingUpdate", "maxSurge")},
				MaxUnavailable: world.Setting{Path: path("spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable")},
			},
		},
		"workers in v1beta1": {
			version: md + "v1beta1", kind: "MachineDeployment",
			metadata: "annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '5'}",
			spec: `{replicas: 2, paused: true, strategy: {type: OnDelete, rollingUpdate: {maxSurge: 0, maxUnavailable: "25%"}},
				template: {spec: {version: v1.34.0, nodeDrainTimeout: 0s, infrastructureRef: {name: tmpl}}}}`,
			want: world.PoolOwner{
				Replicas: 2, Version: "v1.34.0", VersionPath: "spec.template.spec.version", Paused: true, PausedBy: "spec.paused", Autoscaler: "0 to 5",
				TemplateName: "tmpl", TemplateRef: "spec.template.spec.infrastructureRef.name", StrategyType: "OnDelete", OnDelete: true,
				MaxSurge:       world.Setting{Path: path("spec", "strategy", "rollingUpdate", "maxSurge"), Value: "0"},
				MaxUnavailable: world.Setting{Path: path("spec", "strategy", "rollingUpdate", "maxUnavailable"), Value: `"25%"`},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := object(t, "apiVersion: "+tc.version+"\nkind: "+tc.kind+"\nmetadata: {name: o, "+tc.metadata+"}\nspec: "+tc.spec+"\n")
			if diff := cmp.Diff(tc.want, poolOwner(u), cmpopts.IgnoreFields(world.PoolOwner{}, "Ref", "Counts")); diff != "" {
				t.Errorf("owner (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHealthChecksInTheWordsOfEitherVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		metadata, spec string
		want           world.HealthCheck
	}{
		"v1beta2":                   {spec: "{checks: {nodeStartupTimeoutSeconds: 0}}", want: world.HealthCheck{}},
		"v1beta1":                   {spec: "{nodeStartupTimeout: 20m}", want: world.HealthCheck{StartupSeconds: 1200}},
		"Cluster API's own limit":   {spec: "{}", want: world.HealthCheck{StartupSeconds: 600}},
		"paused with a word for it": {metadata: "annotations: {cluster.x-k8s.io/paused: why}", spec: "{}", want: world.HealthCheck{StartupSeconds: 600, Paused: true, Before: `"why"`}},
		"paused without":            {metadata: "annotations: {cluster.x-k8s.io/paused: ''}", spec: "{}", want: world.HealthCheck{StartupSeconds: 600, Paused: true, Before: `""`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := object(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineHealthCheck\nmetadata: {name: c, "+tc.metadata+"}\nspec: "+tc.spec+"\n")
			if diff := cmp.Diff(tc.want, healthCheck(u), cmpopts.IgnoreFields(world.HealthCheck{}, "Ref")); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichMachinesAHealthCheckIsFor(t *testing.T) {
	t.Parallel()
	const w = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: w, namespace: n}\nspec: {template: {metadata: {labels: {tier: web}}}}\n"
	const cp = "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {name: cp, namespace: n}\n"
	machine := object(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: m, namespace: n, labels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/deployment-name: w, by: hand}}\n")
	for name, tc := range map[string]struct {
		selector, owner string
		want            bool
	}{
		"labels of the Machines to come":     {"{matchLabels: {tier: web}}", w, true},
		"the whole cluster":                  {"{matchLabels: {cluster.x-k8s.io/cluster-name: c}}", cp, true},
		"control planes":                     {"{matchExpressions: [{key: cluster.x-k8s.io/control-plane, operator: Exists}]}", cp, true},
		"control planes are no workers":      {"{matchExpressions: [{key: cluster.x-k8s.io/control-plane, operator: Exists}]}", w, false},
		"a label of a present Machine":       {"{matchLabels: {by: hand}}", w, true},
		"a label of somebody else's Machine": {"{matchLabels: {by: hand}}", cp, false},
		"another pool":                       {"{matchLabels: {cluster.x-k8s.io/deployment-name: x}}", w, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := checkSelector(object(t, "apiVersion: a/v1\nkind: A\nspec: {selector: "+tc.selector+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := selects(selector, "n/c", object(t, tc.owner), []*unstructured.Unstructured{machine}); got != tc.want {
				t.Errorf("selected: %t, want %t", got, tc.want)
			}
		})
	}
}
