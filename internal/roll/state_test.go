// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestTheStateOfPoolsIsJudged(t *testing.T) {
	t.Parallel()
	mhc := world.HealthCheck{Ref: world.Ref{Kind: "MachineHealthCheck", Namespace: "metal", Name: "mhc"}, Pools: []string{"MachineDeployment c-md"}, StartupSeconds: 600}
	for name, tt := range map[string]struct {
		change  func(*world.PoolCluster)
		image   func(*v1alpha1.NodeImage)
		verdict v1alpha1.Verdict
		id      string
		want    []string
	}{
		"an autoscaled pool": {func(c *world.PoolCluster) { c.Owners[0].Autoscaler = "1 to 5" }, nil, v1alpha1.VerdictWarn, IDAutoscaler, []string{"c-md", "1 to 5"}},
		"a Machine without a node": {
			func(c *world.PoolCluster) { c.Owners[0].Machines[1].Node = "" }, nil, v1alpha1.VerdictBlock, IDUnavailable,
			[]string{"1 Machine not available", "c-md-1: it has no node yet"},
		},
		"one in a pool that an aborted roll left paused": {
			func(c *world.PoolCluster) {
				c.Owners[1].Machines[0].Unhealthy, c.Owners[1].LeftPaused = []string{"EtcdMemberHealthy: old news"}, true
			}, nil, v1alpha1.VerdictWarn, IDUnavailable, []string{"left paused", "c-cp-0: EtcdMemberHealthy: old news"},
		},
		"one that is allowed to be missing": {func(c *world.PoolCluster) {
			c.Owners[0].Machines[1].NodeReady, c.Owners[0].MaxUnavailable.Value = false, `"50%"`
		}, nil, v1alpha1.VerdictWarn, IDUnavailable, []string{"c-md-1: its node is not ready"}},
		"an unhealthy control plane Machine": {
			func(c *world.PoolCluster) { c.Owners[1].Machines[0].Unhealthy = []string{"EtcdMemberHealthy: no"} }, nil,
			v1alpha1.VerdictBlock, IDUnavailable,
			[]string{"c-cp-0: EtcdMemberHealthy: no"},
		},
		"a health check with little patience": {
			func(c *world.PoolCluster) { c.Checks = []world.HealthCheck{mhc} }, nil, v1alpha1.VerdictWarn, IDHealthCheck,
			[]string{"MachineHealthCheck metal/mhc", "10m0s", "paused for the roll"},
		},
		"a host that is paused": {func(c *world.PoolCluster) { c.Hosts[0].Paused = true }, nil, v1alpha1.VerdictBlock, IDHeld, []string{"BareMetalHost metal/c-md-0", "it is paused"}},
		"a host that is too small": {
			func(c *world.PoolCluster) { c.Hosts[0].Disks = []world.Disk{{Name: "/dev/sda", SizeBytes: 1 << 30}} },
			func(i *v1alpha1.NodeImage) { i.Spec.VirtualSizeBytes = 2 << 30 }, v1alpha1.VerdictBlock, IDFit,
			[]string{"c-md-0", "1 GiB", "2 GiB"},
		},
		"disks that are wiped": {func(c *world.PoolCluster) {
			c.Hosts[0].Cleaning, c.Hosts[0].Disks = "", []world.Disk{{Name: "/dev/sda"}, {Name: "/dev/sdb"}}
		}, nil, v1alpha1.VerdictBlock, IDCleaning, []string{"c-md-0 (metadata): /dev/sda, /dev/sdb", "--accept"}},
		"a kubelet of another version": {
			nil, func(i *v1alpha1.NodeImage) { i.Spec.Contents.KubeletVersion = "v1.33.4" }, v1alpha1.VerdictBlock, IDVersion,
			[]string{"kubelet v1.33.4", "Kubernetes v1.34.0", "--kubernetes v1.33.4"},
		},
		"a kubelet that nobody knows": {nil, nil, v1alpha1.VerdictWarn, IDVersion, []string{"does not say which kubelet"}},
		"a template that was edited": {
			func(c *world.PoolCluster) { c.Hosts[0].Image = "http://img/u0.qcow2" }, nil, v1alpha1.VerdictWarn, IDDrift,
			[]string{"Template Metal3MachineTemplate metal/workers was edited in place: 1 of 2 Machines", "c-md-0 has http://img/u0.qcow2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, image := bareCluster(t, "c", 3, 2), picture()
			if tt.change != nil {
				tt.change(&c)
			}
			if tt.image != nil {
				tt.image(image)
			}
			r, err := Plan([]world.PoolCluster{c}, image, Options{Maps: builtInMaps(t)})
			if err != nil {
				t.Fatalf("Plan() = %v", err)
			}
			var got string
			for _, f := range r.Findings {
				if f.ID == tt.id && f.Verdict == tt.verdict {
					got += f.Summary + " -> " + f.Remedy + "\n"
				}
			}
			for _, want := range tt.want {
				if got == "" || !strings.Contains(got, want) {
					t.Errorf("%s %s does not say %q: %q", tt.verdict, tt.id, want, got)
				}
			}
		})
	}
}

func TestAPoolThatIsWellHasNoFinding(t *testing.T) {
	t.Parallel()
	image := picture()
	image.Spec.Contents.KubeletVersion = "v1.34.0"
	c := bareCluster(t, "c", 3, 2)
	c.Hosts = append(c.Hosts, spare("s", nil))
	r, err := Plan([]world.PoolCluster{c}, image, Options{Maps: builtInMaps(t)})
	if err != nil || len(r.Findings) > 0 || len(r.Pools) != 2 {
		t.Errorf("Plan() = %v, %+v", err, r)
	}
}

// TestAnEditedTemplateIsReplaced has a template that has the image, and hosts that do not.
func TestAnEditedTemplateIsReplaced(t *testing.T) {
	t.Parallel()
	c := bareCluster(t, "c", 3, 2)
	for i := range c.Owners {
		c.Owners[i].Template = object(t, strings.NewReplacer("namespace: c1", "namespace: metal", "u1.qcow2", "u2.qcow2", "checksum: aa", `checksum: "http://img/u2.sha256"`,
			"checksumType: md5", "checksumType: sha256", "diskFormat: raw", "diskFormat: qcow2", "{pool: w}", "{any: 'yes'}").Replace(metal3))
	}
	if r := planned(t, Options{}, c); len(r.Pools) != 0 || len(r.UpToDate) != 2 {
		t.Errorf("with the image everywhere %d pools are planned, %d up to date", len(r.Pools), len(r.UpToDate))
	}
	c.Hosts[0].Image = "http://img/u1.qcow2"
	r := planned(t, Options{}, c)
	if len(r.Pools) != 1 || r.Pools[0].Owner.Name != "c-md" || r.Pools[0].NewTemplate.Name == "workers" {
		t.Errorf("pools = %+v, want c-md with a new template", r.Pools)
	}
	if got := Drift([]world.PoolCluster{c}, builtInMaps(t)); len(got) != 1 || got[0].Verdict != v1alpha1.VerdictBlock {
		t.Errorf("Drift() = %+v, want one that blocks", got)
	}
}
