// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/world"
)

// nodeFleet is one cluster whose control plane and pool are at v1.33.4 and at rest.
func nodeFleet(change func(c *world.NodeCluster)) *world.World {
	counts := world.Counts{Desired: 3, Current: 3, Ready: 3, Available: 3, UpToDate: 3, Known: true}
	c := world.NodeCluster{
		Ref: world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "default", Name: "a"},
		ControlPlane: &world.ControlPlane{
			Ref:     world.Ref{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Namespace: "default", Name: "cp"},
			Version: "v1.33.4", Reached: "v1.33.4", Counts: counts, Etcd: world.EtcdStacked, MaxSurge: "1", Configures: true,
			Nodes: map[string]int{"v1.33.4": 3},
		},
		Pools: []world.Pool{{
			Ref:       world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "default", Name: "w"},
			Bootstrap: world.Ref{APIVersion: "bootstrap.cluster.x-k8s.io/v1beta2", Kind: "KubeadmConfigTemplate", Namespace: "default", Name: "w"},
			Version:   "v1.33.4", Counts: counts, Nodes: map[string]int{"v1.33.4": 3},
		}},
	}
	change(&c)
	looked := map[world.Topic]string{}
	for _, topic := range check.Topics(check.For(check.Nodes)) {
		looked[topic] = ""
	}
	return &world.World{Survey: &world.Survey{Looked: looked, Nodes: &world.Nodes{Clusters: []world.NodeCluster{c}}}}
}

// nodeTarget is a roll of cluster a.
func nodeTarget(version string, controlPlanes bool) *check.Target {
	return &check.Target{Nodes: &check.NodeTarget{Version: version, ControlPlanes: controlPlanes, Clusters: []string{"default/a"}}}
}

// onlyCheck runs one check and returns its findings as "Verdict summary".
func onlyCheck(t *testing.T, id string, w *world.World, target *check.Target) []string {
	t.Helper()
	var out []string
	for _, c := range check.For(check.Nodes) {
		if c.ID != id {
			continue
		}
		for _, f := range check.Run([]check.Check{c}, w, target) {
			if f.Remedy == "" || len(f.Objects) == 0 {
				t.Errorf("finding without a remedy or an object: %+v", f)
			}
			out = append(out, string(f.Verdict)+" "+f.Summary)
		}
	}
	return out
}

// begins compares the findings' beginnings.
func begins(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i, w := range want {
		if g := got[i]; !strings.HasPrefix(g, w) {
			t.Errorf("finding is %q, want it to begin with %q", g, w)
		}
	}
}

func TestVersionSkew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version string
		planes  bool
		change  func(c *world.NodeCluster)
		want    []string
	}{
		"a roll at the same version":          {},
		"workers alone go to a newer patch":   {version: "v1.33.9"},
		"both go to the next minor":           {version: "v1.34.1", planes: true},
		"workers alone go to a newer minor":   {version: "v1.34.1", want: []string{"Block MachineDeployment default/w of cluster default/a would be at v1.34.1, newer than its control plane KubeadmControlPlane default/cp at v1.33.4"}},
		"the control plane jumps":             {version: "v1.35.0", planes: true, want: []string{"Block KubeadmControlPlane default/cp of cluster default/a would jump from v1.33.4 to v1.35.0"}},
		"the control plane goes back a patch": {version: "v1.33.1", planes: true, want: []string{"Block KubeadmControlPlane default/cp of cluster default/a would go back"}},
		"a new major version":                 {version: "v2.0.0", planes: true, want: []string{"Block KubeadmControlPlane default/cp of cluster default/a would jump"}},
		"a pool that was raised too early":    {change: func(c *world.NodeCluster) { c.Pools[0].Version = "v1.34.1" }, want: []string{"Block MachineDeployment default/w of cluster default/a would be at v1.34.1, newer"}},
		"kubeadm joins its own minor only":    {change: func(c *world.NodeCluster) { c.Pools[0].Version = "v1.32.9" }, want: []string{"Block MachineDeployment default/w of cluster default/a makes new Machines at v1.32.9, but kubeadm joins only"}},
		"others join an older minor": {change: func(c *world.NodeCluster) {
			c.Pools[0].Version, c.Pools[0].Bootstrap.Kind = "v1.32.9", "K0sWorkerConfigTemplate"
		}},
		"four minors are too many for anybody": {change: func(c *world.NodeCluster) {
			c.Pools[0].Version, c.Pools[0].Bootstrap.Kind = "v1.29.9", "K0sWorkerConfigTemplate"
		}, want: []string{"Block MachineDeployment default/w of cluster default/a at v1.29.9 is more than 3"}},
		"a pool that would be four minors behind between the stages": {version: "v1.34.1", planes: true, change: func(c *world.NodeCluster) {
			c.Pools[0].Version, c.Pools[0].Bootstrap.Kind = "v1.30.1", "K0sWorkerConfigTemplate"
		}, want: []string{"Block MachineDeployment default/w of cluster default/a at v1.30.1 would be more than 3"}},
		"an autoscaled pool can't grow between the stages": {version: "v1.34.1", planes: true, change: func(c *world.NodeCluster) { c.Pools[0].Autoscaler = "1 to 5" }, want: []string{"Warn MachineDeployment default/w of cluster default/a is autoscaled (1 to 5)"}},
		"a control plane on its way":                       {change: func(c *world.NodeCluster) { c.ControlPlane.Version = "v1.34.1" }, want: []string{"Block KubeadmControlPlane default/cp of cluster default/a is still on its way from v1.33.4 to v1.34.1"}},
		"a control plane that says no version":             {version: "v1.34.1", change: func(c *world.NodeCluster) { c.ControlPlane.Version, c.ControlPlane.Reached = "", "" }},
		"versions of a distribution":                       {change: func(c *world.NodeCluster) { c.Pools[0].Version = "v1.33.4+k0s.0" }},
		"a version that can't be read":                     {change: func(c *world.NodeCluster) { c.Pools[0].Version = "1.33" }, want: []string{`Unknown The version "1.33" of MachineDeployment default/w can't be read`}},
		"no control plane to compare with":                 {version: "v1.34.1", change: func(c *world.NodeCluster) { c.ControlPlane = nil }, want: []string{"Unknown Cluster default/a names no control plane"}},
		"a topology moves as a whole":                      {version: "v1.33.9", change: func(c *world.NodeCluster) { c.Topology = &world.Topology{Version: "v1.33.4"} }, want: []string{"Block Cluster default/a takes its version from its ClusterClass's topology (v1.33.4)"}},
		"machines without a version":                       {change: func(c *world.NodeCluster) { c.Pools[0].Version = "" }},
		"a cluster that is not meant":                      {version: "v1.39.0", change: func(c *world.NodeCluster) { c.Ref.Name = "b" }},
		"a cluster that is being deleted":                  {version: "v1.39.0", change: func(c *world.NodeCluster) { c.Deleting = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change == nil {
				tc.change = func(*world.NodeCluster) {}
			}
			begins(t, onlyCheck(t, "CAP-VERSION-SKEW", nodeFleet(tc.change), nodeTarget(tc.version, tc.planes)), tc.want...)
		})
	}
}

func TestEtcdQuorum(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replicas int64
		etcd     world.Etcd
		surge    string
		want     []string
	}{
		"three":                      {replicas: 3, etcd: world.EtcdStacked, surge: "1"},
		"three and no surge":         {replicas: 3, etcd: world.EtcdStacked, surge: "0"},
		"one":                        {replicas: 1, etcd: world.EtcdStacked, surge: "1"},
		"one and no surge":           {replicas: 1, etcd: world.EtcdStacked, surge: "0", want: []string{"Block KubeadmControlPlane default/cp of cluster default/a has 1 replicas with stacked etcd and maxSurge 0"}},
		"four":                       {replicas: 4, etcd: world.EtcdStacked, surge: "1", want: []string{"Block KubeadmControlPlane default/cp of cluster default/a asks for 4 replicas with stacked etcd: an even number of members; the next odd numbers are 3 and 5"}},
		"four with an external etcd": {replicas: 4, etcd: world.EtcdExternal, surge: "1"},
		"two of somebody else's":     {replicas: 2, etcd: world.EtcdUnknown, surge: "1"},
		"none":                       {etcd: world.EtcdStacked, surge: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := nodeFleet(func(c *world.NodeCluster) {
				c.ControlPlane.Counts.Desired, c.ControlPlane.Etcd, c.ControlPlane.MaxSurge = tc.replicas, tc.etcd, tc.surge
			})
			begins(t, onlyCheck(t, "CAP-ETCD-QUORUM", w, nodeTarget("", false)), tc.want...)
		})
	}
}

func TestCoreDNS(t *testing.T) {
	t.Parallel()
	const good, odd = ".:53 {\n errors\n forward . /etc/resolv.conf\n}\n", ".:53 {\n errors\n blocklist /x\n}\n"
	const image = "registry.k8s.io/coredns/coredns:"
	for name, tc := range map[string]struct {
		dns    world.DNS
		tag    string
		change func(cp *world.ControlPlane)
		want   []string
	}{
		"nothing changes":                    {dns: world.DNS{Image: image + "v1.11.1-100", Corefile: odd}, tag: "v1.11.1-100"},
		"another build of the same version":  {dns: world.DNS{Image: image + "v1.11.1-100", Corefile: odd}, tag: "v1.11.1-200"},
		"a plain migration":                  {dns: world.DNS{Image: image + "v1.11.1", Corefile: good}, tag: "v1.12.1"},
		"a plugin that nobody knows":         {dns: world.DNS{Image: image + "v1.11.1-100", Corefile: odd}, tag: "v1.12.1", want: []string{"Block CoreDNS of cluster default/a can't be migrated from v1.11.1-100 to v1.12.1, which KubeadmControlPlane default/cp asks for: its Corefile has the plugin blocklist"}},
		"a step back":                        {dns: world.DNS{Image: image + "v1.11.1", Corefile: good}, tag: "v1.10.1", want: []string{"Block CoreDNS"}},
		"an unknown target":                  {dns: world.DNS{Image: image + "v1.11.1", Corefile: good}, tag: "v1.99.0", want: []string{"Block CoreDNS"}},
		"an unknown start":                   {dns: world.DNS{Image: image + "v1.11.2", Corefile: good}, tag: "v1.12.1", want: []string{"Block CoreDNS of cluster default/a can't be migrated from v1.11.2 to v1.12.1, which KubeadmControlPlane default/cp asks for: the migrator does not know CoreDNS 1.11.2"}},
		"an image without a tag":             {dns: world.DNS{Image: "localhost:5000/coredns", Corefile: good}, tag: "v1.12.1", want: []string{"Block CoreDNS"}},
		"another repository, known version":  {dns: world.DNS{Image: image + "v1.11.1", Corefile: odd}, change: func(cp *world.ControlPlane) { cp.DNSRepository = "mirror.example.org/k8s" }},
		"another repository, private number": {dns: world.DNS{Image: image + "v1.11.99", Corefile: good}, change: func(cp *world.ControlPlane) { cp.DNSRepository = "mirror.example.org/k8s" }, want: []string{"Block CoreDNS"}},
		"not reached":                        {dns: world.DNS{Failed: "no answer"}, tag: "v1.12.1", want: []string{"Unknown CoreDNS of cluster default/a could not be looked at"}},
		"there is none":                      {dns: world.DNS{Absent: true}, tag: "v1.12.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := nodeFleet(func(c *world.NodeCluster) {
				c.DNS, c.ControlPlane.DNSTag = &tc.dns, tc.tag
				if tc.change != nil {
					tc.change(c.ControlPlane)
				}
			})
			got := onlyCheck(t, "CAP-COREDNS", w, nodeTarget("v1.34.1", true))
			begins(t, got, tc.want...)
		})
	}
}

func TestPausesOfNodesAndOfThePlatform(t *testing.T) {
	t.Parallel()
	cluster := world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "default", Name: "a"}
	host := world.Ref{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Namespace: "default", Name: "rack-1"}
	w := nodeFleet(func(*world.NodeCluster) {})
	w.Survey.Pauses = []world.Pause{
		{Cluster: "default/a", Object: cluster, Where: "spec.paused", Run: "to-v2"},
		{Cluster: "default/a", Object: host, Where: "annotation baremetalhost.metal3.io/paused", By: "kubectl", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Cluster: "default/b", Object: cluster, Where: "spec.paused"},
	}
	begins(t, onlyCheck(t, "CAP-PAUSED", w, nodeTarget("", false)),
		"Block Cluster default/a is paused by spec.paused, set by Capstan's run to-v2",
		"Block BareMetalHost default/rack-1 is paused by annotation baremetalhost.metal3.io/paused, set by kubectl on 2026-01-02 03:04:05Z, not by Capstan")
	begins(t, onlyCheck(t, "CAP-PAUSED", w, &check.Target{}),
		"Warn Cluster default/a is paused by spec.paused, set by Capstan's run to-v2, and 1 more of cluster default/a",
		"Warn Cluster default/a is paused by spec.paused, not set by Capstan")
}

func TestLifecycleHooks(t *testing.T) {
	t.Parallel()
	extension := world.Ref{APIVersion: "runtime.cluster.x-k8s.io/v1beta2", Kind: "ExtensionConfig", Name: "gate"}
	hook := world.Hook{Extension: extension, Handler: "before.gate", Hook: "BeforeClusterUpgrade", FailurePolicy: "Fail", TimeoutSeconds: 10}
	classy := func(c *world.NodeCluster) { c.Topology = &world.Topology{Version: "v1.33.4"} }
	for name, tc := range map[string]struct {
		change func(c *world.NodeCluster)
		hook   world.Hook
		want   []string
	}{
		"a cluster without a ClusterClass": {change: func(*world.NodeCluster) {}, hook: hook},
		"a hook that will be called":       {change: classy, hook: hook, want: []string{"Warn Hook BeforeClusterUpgrade of ExtensionConfig gate (handler before.gate, 10 s, on failure Fail) will be called when cluster default/a moves"}},
		"a hook for other namespaces":      {change: classy, hook: world.Hook{Hook: "BeforeClusterUpgrade", Namespaces: []string{"other"}}},
		"a hook of another moment":         {change: classy, hook: world.Hook{Hook: "BeforeClusterDelete"}},
		"an extension that does not work":  {change: classy, hook: world.Hook{Extension: extension, Trouble: "no endpoints"}, want: []string{"Block ExtensionConfig gate does not work"}},
		"a cluster that is held": {change: func(c *world.NodeCluster) {
			c.Topology = &world.Topology{Version: "v1.34.1", Hooks: []world.HookWait{{Hook: "BeforeClusterUpgrade", Message: "not yet", Extensions: []string{"gate"}}}}
		}, hook: world.Hook{Hook: "BeforeClusterDelete"}, want: []string{`Block Cluster default/a waits on its way to v1.34.1 for hook BeforeClusterUpgrade of ExtensionConfig gate: "not yet"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := nodeFleet(tc.change)
			w.Survey.Nodes.Hooks = []world.Hook{tc.hook}
			begins(t, onlyCheck(t, "CAP-LIFECYCLE-HOOK", w, nodeTarget("v1.34.1", true)), tc.want...)
		})
	}
}

func TestPoolsThatStayOld(t *testing.T) {
	t.Parallel()
	w := nodeFleet(func(c *world.NodeCluster) {
		c.Pools[0].Nodes = map[string]int{"v1.32.9": 2, "v1.33.4": 1}
		c.Pools[0].BootstrapVersions = map[string]string{"spec.template.spec.version": "v1.32.9", "spec.template.spec.files[0].content": "1.33.4"}
	})
	begins(t, onlyCheck(t, "CAP-POOL-BEHIND", w, nodeTarget("", false)), "Block pool w: 2 of 3 nodes at v1.32.9, wanted v1.33.4, roll finished")
	begins(t, onlyCheck(t, "CAP-BOOTSTRAP-VERSION", w, nodeTarget("", false)), "Block KubeadmConfigTemplate default/w of MachineDeployment default/w in cluster default/a carries v1.32.9 in spec.template.spec.version")
	w.Survey.Nodes.Clusters[0].Pools[0].Counts.UpToDate = 2
	begins(t, onlyCheck(t, "CAP-POOL-BEHIND", w, nodeTarget("", false)))
}

func TestHeldPools(t *testing.T) {
	t.Parallel()
	w := nodeFleet(func(c *world.NodeCluster) {
		c.ControlPlane.Version, c.Pools[0].Counts.UpToDate = "v1.34.1", 0
	})
	c := &w.Survey.Nodes.Clusters[0]
	want := []string{"MachineDeployment default/w of cluster default/a is held by the preflight check ControlPlaneIsStable: it waits for KubeadmControlPlane default/cp to reach v1.34.1, which is at v1.33.4"}
	if diff := cmp.Diff(want, check.Held(c, &c.Pools[0])); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	c.Pools[0].Skips = []string{"ControlPlaneIsStable"}
	if got := check.Held(c, &c.Pools[0]); len(got) > 0 {
		t.Errorf("held although the check is skipped: %v", got)
	}
	c.Pools[0].Preflights = []world.Preflight{{Check: "KubeadmVersionSkew", Message: "versions differ"}}
	begins(t, onlyCheck(t, "CAP-NODE-PREFLIGHT", w, nodeTarget("", false)), "Block MachineDeployment default/w of cluster default/a is held by the preflight check KubeadmVersionSkew: versions differ")
}

func TestKnownRiskOfARoll(t *testing.T) {
	t.Parallel()
	w := nodeFleet(func(c *world.NodeCluster) { c.ControlPlane.Version, c.ControlPlane.Reached = "v1.34.6", "v1.34.6" })
	provider := func(v string) []world.Provider {
		return []world.Provider{{ManifestLabel: "control-plane-kubeadm", Name: "kubeadm", Type: "ControlPlaneProvider", Version: v}}
	}
	w.Management.Providers = provider("v1.13.1")
	for _, c := range check.For(check.Nodes) {
		if c.ID != "CAP-NODE-KNOWN-RISK" {
			continue
		}
		found := check.Run([]check.Check{c}, w, nodeTarget("v1.35.5", true))
		if len(found) != 1 || found[0].Verdict != v1alpha1.VerdictBlock {
			t.Fatalf("findings: %+v", found)
		}
		for _, piece := range []string{"v1.35.5", "control-plane-kubeadm v1.13.1"} {
			if !strings.Contains(found[0].Summary, piece) {
				t.Errorf("the finding does not say %q: %s", piece, found[0].Summary)
			}
		}
		if !strings.Contains(found[0].Remedy, "v1.13.2") || !strings.Contains(found[0].Remedy, "clusterrolebinding") {
			t.Errorf("the remedy names neither version nor binding: %s", found[0].Remedy)
		}
		if found := check.Run([]check.Check{c}, w, nodeTarget("v1.35.4", true)); len(found) > 0 {
			t.Errorf("a good version: %+v", found)
		}
		w.Management.Providers = provider("v1.13.2")
		if found := check.Run([]check.Check{c}, w, nodeTarget("v1.35.5", true)); len(found) > 0 {
			t.Errorf("a good provider: %+v", found)
		}
	}
}
