// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

const poolsText = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: metal, labels: {site: a}}
spec: {controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: cp}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp, namespace: metal, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  replicas: 3
  version: v1.35.0
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: old}, deletion: {nodeDrainTimeoutSeconds: 600}}}
status: {replicas: 1, readyReplicas: 1, upToDateReplicas: 0}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: w
  namespace: metal
  labels: {cluster.x-k8s.io/cluster-name: c}
  annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "1", cluster.x-k8s.io/paused: ""}
spec:
  clusterName: c
  replicas: 1
  template: {spec: {version: v1.34.0, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: gone}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3MachineTemplate
metadata: {name: old, namespace: metal}
spec: {nodeReuse: true, template: {spec: {image: {url: http://a/old}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3MachineTemplate
metadata: {name: new, namespace: metal}
spec: {template: {spec: {image: {url: http://a/new}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: cp-1
  namespace: metal
  labels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/control-plane: '', cluster.x-k8s.io/control-plane-name: cp}
  annotations: {pre-drain.delete.hook.machine.cluster.x-k8s.io/capstan: ''}
spec: {clusterName: c, version: v1.35.0, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Machine, name: cp-1-infra}}
status: {phase: Running, nodeRef: {name: node-1}, conditions: [{type: APIServerPodHealthy, status: 'True'}, {type: NodeReady, status: 'True'}, {type: OwnerRemediated, status: 'False'}]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: w-1, namespace: metal, labels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/deployment-name: w, cluster.x-k8s.io/set-name: w-x}}
spec: {clusterName: c, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Machine, name: w-1-infra}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: z-other, namespace: metal, labels: {cluster.x-k8s.io/cluster-name: other, cluster.x-k8s.io/deployment-name: w}}
spec: {clusterName: other}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Machine
metadata:
  name: cp-1-infra
  namespace: metal
  labels: {cluster.x-k8s.io/cluster-name: c}
  annotations: {cluster.x-k8s.io/cloned-from-name: old, metal3.io/BareMetalHost: metal/host-1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Machine
metadata: {name: w-1-infra, namespace: metal, annotations: {cluster.x-k8s.io/cloned-from-name: gone}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: host-1, namespace: metal}
status: {provisioning: {state: provisioned}}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: host-2, namespace: metal}
spec: {consumerRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3Machine, namespace: metal, name: w-1-infra}}
status: {provisioning: {state: provisioning}, errorType: provisioning error, errorMessage: checksum mismatch}
---
apiVersion: metal3.io/v1alpha1
kind: HardwareData
metadata: {name: host-1, namespace: metal}
spec: {hardware: {ramMebibytes: 2048}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: all, namespace: metal, annotations: {cluster.x-k8s.io/paused: by-hand}}
spec: {clusterName: c, selector: {matchLabels: {cluster.x-k8s.io/deployment-name: w}}, checks: {nodeStartupTimeoutSeconds: 300}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {unschedulable: true}
status:
  nodeInfo: {osImage: Ubuntu 24.04, kernelVersion: 6.8.0, containerRuntimeVersion: containerd://2, kubeletVersion: v1.35.0, architecture: amd64,
    bootID: b, kubeProxyVersion: '', machineID: m, operatingSystem: linux, systemUUID: u}
  conditions: [{type: Ready, status: 'True', reason: x, message: z}]`

// poolsBench is a management cluster that is its own workload cluster, with a roll under way.
func poolsBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.namespace(t, "metal")
	for _, crd := range []string{
		anything("cluster.x-k8s.io", "Cluster", "Namespaced", "v1beta2"), anything("cluster.x-k8s.io", "Machine", "Namespaced", "v1beta2"),
		anything("cluster.x-k8s.io", "MachineDeployment", "Namespaced", "v1beta2"), anything("cluster.x-k8s.io", "MachineHealthCheck", "Namespaced", "v1beta2"),
		anything("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "Namespaced", "v1beta2"),
		anything("infrastructure.cluster.x-k8s.io", "Metal3Machine", "Namespaced", "v1beta1"), anything("infrastructure.cluster.x-k8s.io", "Metal3MachineTemplate", "Namespaced", "v1beta1"),
		anything("metal3.io", "BareMetalHost", "Namespaced", "v1alpha1"), anything("metal3.io", "HardwareData", "Namespaced", "v1alpha1"),
	} {
		b.create(t, "test", crd)
	}
	b.create(t, "test", poolsText)
	return b
}

func (b *bench) kubeconfig(t *testing.T) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: %s}}]\n", b.cfg.Host, b.cfg.BearerToken)
	b.create(t, "test", "apiVersion: v1\nkind: Secret\nmetadata: {name: c-kubeconfig, namespace: metal}\ndata: {value: "+base64.StdEncoding.EncodeToString([]byte(text))+"}")
}

func metalRef(apiVersion, kind, name string) world.Ref {
	return world.Ref{APIVersion: apiVersion, Kind: kind, Namespace: "metal", Name: name}
}

func TestPools(t *testing.T) {
	b := poolsBench(t)
	const infrastructure = "infrastructure.cluster.x-k8s.io/v1beta1"
	cp := world.WantPool{
		Cluster: "metal/c", Owner: metalRef("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "cp"),
		Template: metalRef(infrastructure, "Metal3MachineTemplate", "new"), Workload: true,
		Settings: []world.Ref{metalRef(infrastructure, "Metal3MachineTemplate", "old"), metalRef("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "none")},
	}
	// A version that is served no more is read in one that is.
	workers := world.WantPool{Cluster: "metal/c", Owner: metalRef("cluster.x-k8s.io/v1beta1", "MachineDeployment", "w"), Template: metalRef(infrastructure, "Metal3MachineTemplate", "none")}
	look := func(t *testing.T) []world.PoolState {
		t.Helper()
		got := b.observe(t, world.Want{ID: "x", Pools: []world.WantPool{cp, workers}}).Sets["x"].Pools
		if len(got) != 2 {
			t.Fatalf("got %d pools, want 2", len(got))
		}
		return got
	}
	t.Run("a cluster that can't be asked is silent and no error", func(t *testing.T) {
		got := look(t)
		if !strings.Contains(got[0].Silent, "c-kubeconfig") || got[1].Silent != "" {
			t.Errorf("silent: %q and %q, want the missing Secret and nothing", got[0].Silent, got[1].Silent)
		}
		if m := got[0].Machines; len(m) != 1 || !m[0].NodeReady {
			t.Errorf("got %+v, want one Machine whose node is well by Cluster API's word", m)
		}
	})
	b.kubeconfig(t)
	got := look(t)
	t.Run("objects are read, and are nil where they are not there", func(t *testing.T) {
		s := got[0]
		if s.Owner == nil || s.Template.GetName() != "new" || len(s.Settings) != 2 || s.Settings[0].GetName() != "old" || s.Settings[1] != nil || s.Counts.Desired != 3 {
			t.Errorf("got %+v", s)
		}
		if got[1].Owner == nil || got[1].Template != nil {
			t.Errorf("owner of the workers is %v and their template %v, want the owner alone", got[1].Owner, got[1].Template)
		}
		if s.Silent != "" || len(s.Hosts) != 2 {
			t.Errorf("silent %q with %d hosts, want 2 hosts", s.Silent, len(s.Hosts))
		}
	})
	t.Run("Machines are joined with nodes, templates and hosts", func(t *testing.T) {
		want := [][]world.RolledMachine{{{
			Ref: metalRef("cluster.x-k8s.io/v1beta2", "Machine", "cp-1"), Template: "old", Version: "v1.35.0", Phase: "Running", Hooks: []string{"capstan"}, Remediated: true,
			Unhealthy: []string{
				"ControllerManagerPodHealthy: nothing is reported yet", "SchedulerPodHealthy: nothing is reported yet",
				"EtcdPodHealthy: nothing is reported yet", "EtcdMemberHealthy: nothing is reported yet",
			},
			Node: "node-1", NodeTrouble: "node node-1 is cordoned", Host: "host-1", HostState: "provisioned",
			Contents: v1alpha1.NodeImageContents{OSImage: "Ubuntu 24.04", KernelVersion: "6.8.0", ContainerRuntimeVersion: "containerd://2", KubeletVersion: "v1.35.0", Architecture: "amd64"},
		}}, {{
			Ref: metalRef("cluster.x-k8s.io/v1beta2", "Machine", "w-1"), Template: "gone", NodeTrouble: "it has no node yet",
			Host: "host-2", HostState: "provisioning error", HostError: "checksum mismatch",
		}}}
		machines := [][]world.RolledMachine{got[0].Machines, got[1].Machines}
		if diff := cmp.Diff(want, machines, cmpopts.IgnoreFields(world.RolledMachine{}, "UID", "ResourceVersion", "Created")); diff != "" {
			t.Errorf("machines (-want +got):\n%s", diff)
		}
	})
	t.Run("a survey finds what a plan depends on", b.surveyedPools)
	t.Run("many pools cost no more lists", func(t *testing.T) {
		count := func(pools ...world.WantPool) int64 {
			before := b.requests.all.Load()
			b.observe(t, world.Want{ID: "y", Pools: pools})
			return b.requests.all.Load() - before
		}
		many := []world.WantPool{workers}
		for i := range 40 {
			next := workers
			next.Owner.Name = fmt.Sprintf("w-%d", i)
			many = append(many, next)
		}
		if one, all := count(workers), count(many...); all > one {
			t.Errorf("%d requests for one pool and %d for 41", one, all)
		}
	})
}

func (b *bench) surveyedPools(t *testing.T) {
	ask := func(selector string) *world.PoolSurvey {
		s := b.observer.Survey(t.Context(), world.Ask{Topics: []world.Topic{world.TopicPools}, Nodes: &world.AskNodes{Selector: selector}})
		if why, failed := s.Failed(world.TopicPools); failed {
			t.Fatalf("the survey failed: %s", why)
		}
		return s.Pools
	}
	if got := ask("site=b"); len(got.Clusters) != 0 {
		t.Errorf("got %d clusters that were not asked for", len(got.Clusters))
	}
	got := ask("site=a")
	if len(got.Clusters) != 1 || len(got.Clusters[0].Owners) != 2 {
		t.Fatalf("got %+v, want one cluster with two owners", got)
	}
	c := got.Clusters[0]
	if cp := c.Owners[0]; !cp.ControlPlane || cp.Template.GetName() != "old" || cp.MaxSurge.Value != "0" || cp.DrainTimeout != "10m0s" || len(cp.Machines) != 1 || cp.Machines[0].Host != "host-1" {
		t.Errorf("control plane is %+v", cp)
	}
	if w := c.Owners[1]; w.Template != nil || w.TemplateName != "gone" || w.Autoscaler != "1 to any" || w.PausedBy != "annotation cluster.x-k8s.io/paused" || len(w.Machines) != 1 {
		t.Errorf("workers are %+v", w)
	}
	wantChecks := []world.HealthCheck{{
		Ref: metalRef("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "all"), Pools: []string{"MachineDeployment w"}, StartupSeconds: 300, Paused: true, Before: `"by-hand"`,
	}}
	if diff := cmp.Diff(wantChecks, c.Checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if len(c.Hosts) != 2 || c.Hosts[0].MemoryMiB != 2048 {
		t.Errorf("hosts are %+v, want two, the first with what its HardwareData has", c.Hosts)
	}
}
