// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// bare makes a cluster on bare metal: its control plane and one pool of workers, each with hosts of its own.
func bareCluster(t *testing.T, name string, controlPlanes, workers int64) world.PoolCluster {
	t.Helper()
	c := world.PoolCluster{Key: "metal/" + name, Ref: world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "metal", Name: name}}
	c.Owners = []world.PoolOwner{barePool(t, name+"-md", false, workers), barePool(t, name+"-cp", true, controlPlanes)}
	for i := range c.Owners {
		p := &c.Owners[i]
		for n := range p.Replicas {
			host := fmt.Sprintf("%s-%d", p.Ref.Name, n)
			c.Hosts = append(c.Hosts, world.BareHost{
				Namespace: "metal", Name: host, State: "provisioned", Operational: "OK", Labels: map[string]string{"any": "yes", "pool": p.Ref.Name},
				Consumer: world.Ref{Kind: "Metal3Machine", Namespace: "metal", Name: host}, Cleaning: "disabled",
			})
			p.Machines = append(p.Machines, world.RolledMachine{Ref: world.Ref{Kind: "Machine", Namespace: "metal", Name: host}, Host: host, NodeReady: true, Node: host, Template: "workers"})
		}
	}
	return c
}

func barePool(t *testing.T, name string, controlPlane bool, replicas int64) world.PoolOwner {
	t.Helper()
	p := world.PoolOwner{
		Ref:          world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "metal", Name: name},
		ControlPlane: controlPlane, Replicas: replicas,
		Template:     object(t, strings.ReplaceAll(strings.ReplaceAll(metal3, "namespace: c1", "namespace: metal"), "{pool: w}", "{any: 'yes'}")),
		TemplateName: "workers", Version: "v1.34.0", VersionPath: "spec.template.spec.version", TemplateRef: "spec.template.spec.infrastructureRef.name",
		MaxSurge:       world.Setting{Path: []string{"spec", "maxSurge"}, Value: "1"},
		MaxUnavailable: world.Setting{Path: []string{"spec", "maxUnavailable"}, Value: "0"},
	}
	if controlPlane {
		p.Ref.APIVersion, p.Ref.Kind, p.MaxUnavailable = "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", world.Setting{}
	}
	return p
}

func spare(name string, change func(*world.BareHost)) world.BareHost {
	h := world.BareHost{Namespace: "metal", Name: name, State: "available", Operational: "OK", Labels: map[string]string{"any": "yes"}, Cleaning: "disabled"}
	if change != nil {
		change(&h)
	}
	return h
}

func planned(t *testing.T, o Options, clusters ...world.PoolCluster) *Result {
	t.Helper()
	o.Maps = builtInMaps(t)
	r, err := Plan(clusters, picture(), o)
	if err != nil {
		t.Fatalf("Plan() = %v", err)
	}
	return r
}

// strategies says which pool is rolled how, in order.
func strategies(r *Result) string {
	var out []string
	for _, p := range r.Pools {
		out = append(out, p.Owner.Name+"="+string(p.Strategy))
	}
	return strings.Join(out, " ")
}

// blocks are the findings that block.
func blocks(r *Result) string {
	var out []string
	for _, f := range r.Findings {
		if f.Verdict == v1alpha1.VerdictBlock {
			out = append(out, f.ID+": "+f.Summary+" -> "+f.Remedy)
		}
	}
	return strings.Join(out, "\n")
}

func TestStrategiesFollowFromTheHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		controlPlanes, workers int64
		spares                 []world.BareHost
		strategy               string
		change                 func(*world.PoolCluster)
		want                   string
		blocks                 []string
	}{
		"a standby host serves one pool after the other": {3, 2, []world.BareHost{spare("s", nil)}, "", nil, "c-cp=Surge c-md=Surge", nil},
		"without one the old Machine goes first":         {3, 2, nil, "", nil, "c-cp=ScaleIn c-md=ScaleIn", nil},
		"scale-in can be asked for":                      {3, 2, []world.BareHost{spare("s", nil)}, ScaleIn, nil, "c-cp=ScaleIn c-md=ScaleIn", nil},
		"surge without a host is refused with each host's reason": {3, 2, []world.BareHost{spare("s", func(h *world.BareHost) { h.Paused = true })}, Surge, nil, "", []string{
			"KubeadmControlPlane metal/c-cp of cluster metal/c needs 1 free host, has 0", "s: it is paused", "c-cp-0: it is in use by Metal3Machine metal/c-cp-0", "maxSurge 0",
		}},
		"one control plane Machine without a host is refused with two ways out": {1, 2, nil, "", nil, "c-md=ScaleIn", []string{"has 1 replica", "add a host", "scale it to 3", "c-md-0: it is in use"}},
		"one worker without a host is refused":                                  {3, 1, nil, "", nil, "c-cp=ScaleIn", []string{"MachineDeployment metal/c-md", "has 1 replica", "add a host", "scale it to 2"}},
		"one control plane Machine with a host surges":                          {1, 1, []world.BareHost{spare("s", nil)}, "", nil, "c-cp=Surge c-md=Surge", nil},
		"one control plane Machine can't scale in by wish":                      {1, 2, []world.BareHost{spare("s", nil)}, ScaleIn, nil, "c-md=ScaleIn", []string{"--strategy surge, for which a host is free"}},
		"maxSurge 0 with maxUnavailable 0 is refused":                           {3, 2, nil, "", func(c *world.PoolCluster) { c.Owners[0].MaxSurge.Value = "0" }, "c-cp=ScaleIn", []string{"maxSurge 0 and maxUnavailable 0"}},
		"a paused owner is refused":                                             {3, 2, nil, "", func(c *world.PoolCluster) { c.Owners[0].Paused, c.Owners[0].PausedBy = true, "spec.paused" }, "c-cp=ScaleIn", []string{"is paused (spec.paused)"}},
		"OnDelete is refused":                                                   {3, 2, nil, "", func(c *world.PoolCluster) { c.Owners[0].OnDelete = true }, "c-cp=ScaleIn", []string{"OnDelete"}},
		"a pool of a ClusterClass is refused": {3, 2, nil, "", func(c *world.PoolCluster) { c.Class, c.Owners[0].Topology = "blue", true }, "c-cp=ScaleIn", []string{
			"made by ClusterClass blue", "spec.topology of Cluster metal/c", "spec.template.spec.image.url",
		}},
		"a template that is gone is refused": {3, 2, nil, "", func(c *world.PoolCluster) { c.Owners[0].Template = nil }, "c-cp=ScaleIn", []string{`names machine template "workers", which is not there`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := bareCluster(t, "c", tt.controlPlanes, tt.workers)
			c.Hosts = append(c.Hosts, tt.spares...)
			if tt.change != nil {
				tt.change(&c)
			}
			r := planned(t, Options{Strategy: tt.strategy}, c)
			if got := strategies(r); got != tt.want {
				t.Errorf("strategies = %q, want %q (%s)", got, tt.want, blocks(r))
			}
			got := blocks(r)
			if len(tt.blocks) == 0 && got != "" {
				t.Errorf("it is refused: %s", got)
			}
			for _, want := range tt.blocks {
				if !strings.Contains(got, want) {
					t.Errorf("no finding says %q:\n%s", want, got)
				}
			}
		})
	}
}

func TestEachHostHasItsReason(t *testing.T) {
	t.Parallel()
	d, err := hostDemand(object(t, strings.ReplaceAll(metal3, "namespace: c1", "namespace: metal")), picture(), "md-w")
	if err != nil {
		t.Fatal(err)
	}
	d.Image.Spec.VirtualSizeBytes, d.Image.Spec.SizeBytes, d.Image.Spec.Contents.Architecture = 20<<30, 9<<30, "amd64"
	for name, tt := range map[string]struct {
		change func(*world.BareHost)
		want   string
	}{
		"a free one":                   {func(*world.BareHost) {}, ""},
		"one of the older state ready": {func(h *world.BareHost) { h.State = "ready" }, ""},
		"one reserved for this pool":   {func(h *world.BareHost) { h.ReservedFor = "md-w" }, ""},
		"one reserved for another":     {func(h *world.BareHost) { h.ReservedFor = "md-a" }, "it is reserved for a (label"},
		"another namespace":            {func(h *world.BareHost) { h.Namespace = "else" }, "it is in namespace else"},
		"other labels":                 {func(h *world.BareHost) { h.Labels = map[string]string{"pool": "x"} }, `its labels do not match "pool=w"`},
		"one that is detached":         {func(h *world.BareHost) { h.Detached = true }, "it is detached"},
		"one that is unhealthy":        {func(h *world.BareHost) { h.Unhealthy = true }, "it is marked unhealthy"},
		"one in error":                 {func(h *world.BareHost) { h.Error = "BMC down" }, "it is in error: BMC down"},
		"one with an error status":     {func(h *world.BareHost) { h.Operational = "error" }, "its operational status is error"},
		"one that is inspected":        {func(h *world.BareHost) { h.State = "inspecting" }, "it is in state inspecting"},
		"one that is being deleted":    {func(h *world.BareHost) { h.Deleting = true }, "it is being deleted"},
		"one that others provisioned":  {func(h *world.BareHost) { h.Externally = true }, "something else provisioned it"},
		"one in use":                   {func(h *world.BareHost) { h.Consumer = world.Ref{Kind: "Metal3Machine", Name: "m"} }, "it is in use by Metal3Machine m"},
		"another architecture":         {func(h *world.BareHost) { h.Architecture = "aarch64" }, "its architecture is arm64, the image's amd64"},
		"the same by another name":     {func(h *world.BareHost) { h.Architecture = "x86_64" }, ""},
		"a root disk that is too small": {func(h *world.BareHost) {
			h.Disks = []world.Disk{{Name: "/dev/sda", SizeBytes: 10 << 30}, {Name: "/dev/sdb", SizeBytes: 90 << 30}}
		}, "its root disk /dev/sda has 10 GiB, the image needs 20 GiB"},
		"a hint to a larger disk": {func(h *world.BareHost) {
			h.RootHints, h.Disks = true, []world.Disk{{Name: "/dev/sda", SizeBytes: 10 << 30}, {Name: "/dev/sdb", SizeBytes: 90 << 30}}
		}, ""},
		"too little memory": {func(h *world.BareHost) { h.MemoryMiB = 8 << 10 }, "it has 8 GiB of memory, and a qcow2 image of 9 GiB is unpacked there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := spare("h", func(h *world.BareHost) { h.Labels = map[string]string{"pool": "w"}; tt.change(h) })
			got := d.Refuses(&h)
			if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
				t.Errorf("Refuses() = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestFreeHostsAreCountedTogether has one standby host that only one of two pools may have.
func TestFreeHostsAreCountedTogether(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		controlPlane, worker string // the labels that the pools select by
		spares               []string
		want                 string
	}{
		"one for the workers alone":                    {"c-cp", "c-md", []string{"c-md"}, "c-cp=ScaleIn c-md=Surge"},
		"one for the control plane alone":              {"c-cp", "c-md", []string{"c-cp"}, "c-cp=Surge c-md=ScaleIn"},
		"one for each":                                 {"c-cp", "c-md", []string{"c-cp", "c-md"}, "c-cp=Surge c-md=Surge"},
		"one that the first may leave only to itself":  {"c-cp,x", "c-md,x", []string{"x"}, "c-cp=Surge c-md=ScaleIn"},
		"two, of which the first can't need both":      {"c-cp,x", "c-md,x", []string{"x", "c-md"}, "c-cp=Surge c-md=Surge"},
		"two that both may take, and one comes back":   {"c-cp,x", "x", []string{"x", "x"}, "c-cp=Surge c-md=ScaleIn"},
		"one that comes back, whichever of them it is": {"c-cp,x", "c-cp,x", []string{"x"}, "c-cp=Surge c-md=Surge"},
		"none that either may have":                    {"c-cp", "c-md", []string{"y"}, "c-cp=ScaleIn c-md=ScaleIn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := bareCluster(t, "c", 3, 2)
			for i, values := range []string{tt.worker, tt.controlPlane} {
				c.Owners[i].Template = object(t, strings.ReplaceAll(strings.ReplaceAll(metal3, "namespace: c1", "namespace: metal"),
					"matchLabels: {pool: w}", "matchExpressions: [{key: pool, operator: in, values: ["+values+"]}]"))
			}
			for i, value := range tt.spares {
				c.Hosts = append(c.Hosts, spare(fmt.Sprintf("s%d", i), func(h *world.BareHost) { h.Labels["pool"] = value }))
			}
			r := planned(t, Options{}, c)
			if got := strategies(r); got != tt.want {
				t.Errorf("strategies = %q, want %q (%s)", got, tt.want, blocks(r))
			}
		})
	}
}

func TestAPlanSaysAllThatItsStepsNeed(t *testing.T) {
	t.Parallel()
	c := bareCluster(t, "c", 3, 2)
	c.Checks = []world.HealthCheck{{Ref: world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineHealthCheck", Namespace: "metal", Name: "mhc"}, Pools: []string{"MachineDeployment c-md"}}}
	r := planned(t, Options{Version: "v1.35.0"}, c)
	if len(r.Pools) != 2 {
		t.Fatalf("%d pools are planned, want 2 (%s)", len(r.Pools), blocks(r))
	}
	cp, md := r.Pools[0], r.Pools[1]
	if diff := cmp.Diff([]string{"kubeadmcontrolplane/metal/c-cp"}, md.Needs); diff != "" || len(cp.Needs) > 0 {
		t.Errorf("needs differ, the control plane has %v (-want +got):\n%s", cp.Needs, diff)
	}
	if !strings.Contains(cp.Why, "quorum 2 of 3 during each step") {
		t.Errorf("why = %q, want it to tell the quorum", cp.Why)
	}
	if md.FromVersion != "v1.34.0" || md.ToVersion != "v1.35.0" || md.VersionPath != "spec.template.spec.version" {
		t.Errorf("versions are %s to %s at %s", md.FromVersion, md.ToVersion, md.VersionPath)
	}
	var got []string
	for _, s := range md.Settings {
		got = append(got, fmt.Sprintf("%s %s %s>%s", s.Object.Kind, strings.Join(s.Path, "."), s.Before, s.During))
	}
	want := []string{
		"MachineDeployment spec.maxSurge 1>0", "MachineDeployment spec.maxUnavailable 0>1",
		`MachineHealthCheck metadata.annotations.cluster.x-k8s.io/paused >"capstan-roll"`,
		"Metal3MachineTemplate spec.nodeReuse >true", "Metal3MachineTemplate spec.nodeReuse >true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings differ (-want +got):\n%s", diff)
	}
	objects, err := release.DecodeObjects(r.Templates[md.Artifact])
	if err != nil || len(objects) != 1 || objects[0].GetName() != md.NewTemplate.Name {
		t.Errorf("the artifact of %s holds %v (%v)", md.NewTemplate.Name, objects, err)
	}
}

func TestPoolsThatShareHostsWaitForEachOther(t *testing.T) {
	t.Parallel()
	a, b := bareCluster(t, "a", 3, 2), bareCluster(t, "b", 3, 2)
	a.Hosts = append(a.Hosts, b.Hosts...)
	r := planned(t, Options{Pools: []string{"a-md", "b-md"}}, a, b)
	if len(r.Pools) != 2 || !slices.Contains(r.Pools[1].Needs, "machinedeployment/metal/a-md") {
		t.Errorf("pools = %+v, want b-md behind a-md", r.Pools)
	}
	for _, p := range planned(t, Options{}, a, b).Pools[1:] {
		if len(p.Needs) != 1 {
			t.Errorf("%s needs %v, want only the last before it", p.Owner.Name, p.Needs)
		}
	}
	if why := r.Hosts[0].Verdicts()[0]; why.Name != "a-cp-0" || why.Why != "it is in use by Metal3Machine metal/a-cp-0" {
		t.Errorf("the first host's verdict is %+v", why)
	}
}

func TestPoolsAreTakenInTheOrderThatIsAsked(t *testing.T) {
	t.Parallel()
	c := bareCluster(t, "c", 3, 2)
	c.Owners = append(c.Owners, barePool(t, "a", false, 2))
	if got := strategies(planned(t, Options{}, c)); got != "c-cp=ScaleIn a=ScaleIn c-md=ScaleIn" {
		t.Errorf("by name: %q", got)
	}
	if got := strategies(planned(t, Options{Pools: []string{"c-md", "a"}}, c)); got != "c-md=ScaleIn a=ScaleIn" {
		t.Errorf("as asked: %q", got)
	}
	if got := blocks(planned(t, Options{Pools: []string{"nobody"}}, c)); !strings.Contains(got, "is named nobody -> name some of these: a, c-cp, c-md") {
		t.Errorf("a name that is not there: %q", got)
	}
}

func TestInfrastructureThatMakesMachinesSurges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replicas      int64
		surge, asked  string
		want, refused string
	}{
		"by itself":                     {1, "1", "", "c-cp=Surge", ""},
		"unless its own setting says":   {3, "0", "", "c-cp=ScaleIn", ""},
		"or it is asked":                {3, "1", ScaleIn, "c-cp=ScaleIn", ""},
		"not one replica with its own":  {1, "0", "", "", "take --strategy surge"},
		"one replica if that is wanted": {1, "0", Surge, "c-cp=Surge", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := bareCluster(t, "c", tt.replicas, 2)
			c.Owners, c.Hosts = c.Owners[1:], nil
			c.Owners[0].Template, c.Owners[0].MaxSurge.Value = object(t, template("v1beta2", "DevMachineTemplate", `{backend: {inMemory: {}}}`)), tt.surge
			r := planned(t, Options{Strategy: tt.asked}, c)
			if got := strategies(r); got != tt.want || !strings.Contains(blocks(r), tt.refused) || tt.refused == "" && blocks(r) != "" {
				t.Errorf("strategies = %q, want %q; refused: %s", got, tt.want, blocks(r))
			}
		})
	}
}
