// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/world"
)

func nodeDraft(findings ...v1alpha1.Finding) *operation.NodeDraft {
	plane := world.Ref{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Namespace: "default", Name: "a-cp"}
	workers := world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "default", Name: "a-w"}
	return &operation.NodeDraft{
		Ask: world.AskNodes{Version: "v1.34.1", ControlPlanes: true}, Clusters: []string{"default/a"}, Findings: findings,
		Stages: []operation.NodeStage{
			{Name: "control planes", Moves: []operation.NodeMove{{Cluster: "default/a", Object: plane, From: "v1.33.4", To: "v1.34.1", Machines: 3}}},
			{Name: "workers", Moves: []operation.NodeMove{{Cluster: "default/a", Object: workers, From: "v1.33.4", To: "v1.34.1", Machines: 5}}},
		},
	}
}

// nodesSeen is a fleet in which everything waits for something.
func nodesSeen() *Nodes {
	ref := func(kind, name string) world.Ref {
		return world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: kind, Namespace: "default", Name: name}
	}
	full := world.Counts{Desired: 3, Current: 3, Ready: 3, Available: 3, UpToDate: 3, Known: true}
	moving := full
	moving.UpToDate = 0
	return &Nodes{Now: at(30).Time, Seen: &world.Survey{
		Nodes: &world.Nodes{Clusters: []world.NodeCluster{
			{
				Ref:          ref("Cluster", "a"),
				Topology:     &world.Topology{Version: "v1.31.2", Since: at(0).Time, Hooks: []world.HookWait{{Hook: "BeforeClusterUpgrade", Message: "backup is not done", Extensions: []string{"gate"}}}},
				ControlPlane: &world.ControlPlane{Ref: ref("KubeadmControlPlane", "a-cp"), Version: "v1.31.2", Reached: "v1.30.4", Counts: full, Nodes: map[string]int{"v1.30.4": 3}},
				Pools:        []world.Pool{{Ref: ref("MachineDeployment", "a-w"), Version: "v1.31.2", Counts: moving, Nodes: map[string]int{"v1.30.4": 2, "v1.31.2": 1}}},
			},
			{Ref: ref("Cluster", "b"), Pools: []world.Pool{{Ref: ref("MachineDeployment", "w"), Version: "v1.31.2", Counts: full, Nodes: map[string]int{"v1.30.4": 3}}}},
		}},
		Pauses: []world.Pause{
			{Cluster: "default/a", Object: ref("Cluster", "a"), Where: "spec.paused", Run: "to-v1.14.2"},
			{Cluster: "default/b", Object: ref("MachineDeployment", "w"), Where: "annotation cluster.x-k8s.io/paused", By: "kubectl", At: at(5).Time},
		},
	}}
}

func TestNodeScreens(t *testing.T) {
	t.Parallel()
	finding := v1alpha1.Finding{
		ID: "CAP-ETCD-QUORUM", Verdict: v1alpha1.VerdictBlock, Summary: "KubeadmControlPlane default/a-cp of cluster default/a asks for 4 replicas", Remedy: "scale it", Waivable: true,
	}
	idle := func(n *Nodes) *Status {
		return &Status{World: management("v1.14.2", "v1.14.2"), PlatformVersion: "v1.14.2", Nodes: n, Now: at(30).Time, Next: prompt}
	}
	for name, doc := range map[string]Document{
		"nodes-plan":         &NodePlan{Draft: nodeDraft(), Next: prompt("status")},
		"nodes-plan-blocked": &NodePlan{Draft: nodeDraft(finding), Blocking: check.Blocking([]v1alpha1.Finding{finding}, nil), Next: prompt("nodes", "plan")},
		"nodes-plan-nothing": &NodePlan{Draft: &operation.NodeDraft{Ask: world.AskNodes{Version: "v1.34.1"}, Clusters: []string{"default/a"}}, Next: prompt("status")},
		"status-nodes":       idle(nodesSeen()),
		"status-nodes-blind": idle(&Nodes{Error: "the control planes and worker pools: forbidden", Now: at(30).Time, Seen: &world.Survey{}}),
	} {
		for _, f := range []Format{FormatText, FormatJSON} {
			t.Run(name+"."+string(f), func(t *testing.T) {
				t.Parallel()
				var b bytes.Buffer
				if err := Write(&b, f, Style{}, doc); err != nil {
					t.Fatal(err)
				}
				golden(t, name+"."+string(f), b.Bytes())
			})
		}
	}
}

func TestManyPoolsShowOnlyThoseWithTrouble(t *testing.T) {
	t.Parallel()
	n := nodesSeen()
	settled := n.Seen.Nodes.Clusters[1]
	settled.Pools = nil
	for range 2 * mostPools {
		p := n.Seen.Nodes.Clusters[1].Pools[0]
		p.Nodes = map[string]int{"v1.31.2": 3}
		settled.Pools = append(settled.Pools, p)
	}
	n.Seen.Nodes.Clusters = append(n.Seen.Nodes.Clusters, settled)
	text := n.text(Style{})
	if !strings.Contains(text, "80 more control planes and pools are settled") || strings.Count(text, "\n") > 30 || !strings.Contains(text, "FAULT") {
		t.Errorf("screen of a large fleet:\n%s", text)
	}
}
