// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/world"
)

func ref(kind, name string) world.Ref {
	return world.Ref{APIVersion: "x/v1", Kind: kind, Namespace: "ns", Name: name}
}

// fleet is one cluster with a control plane of three and a pool of two Machines.
func fleet() []world.Cluster {
	cp, md := ref("KubeadmControlPlane", "cp"), ref("MachineDeployment", "md")
	c := world.Cluster{Namespace: "ns", Name: "a", UID: "a1", Owners: []world.Owner{
		{Ref: cp, UID: "1", Replicas: 3, Template: map[string]string{"spec.version": "v1", "infrastructure": "t1"}},
		{Ref: md, UID: "2", Replicas: 2, Template: map[string]string{"spec.version": "v1"}},
	}}
	for i := range 3 {
		c.Machines = append(c.Machines, world.Machine{Name: fmt.Sprintf("cp-%d", i), UID: fmt.Sprintf("cp%d", i), Owner: cp})
	}
	for i := range 2 {
		c.Machines = append(c.Machines, world.Machine{Name: fmt.Sprintf("md-%d", i), UID: fmt.Sprintf("md%d", i), Owner: md})
	}
	return []world.Cluster{c}
}

// configured sets the configuration of the control plane.
func configured(c *world.Cluster, generation int64, read string, config map[string]string) {
	c.Owners[0].Generation, c.Owners[0].Read, c.Owners[0].Config = generation, read, config
}

// TestOneRolloutMakesAllPendingOnesCount is a new default that a provider writes into every control plane: once the first
// of them replaces Machines for it, none is left to follow.
func TestOneRolloutMakesAllPendingOnesCount(t *testing.T) {
	t.Parallel()
	two := func(generation int64, config map[string]string) []world.Cluster {
		a, b := fleet()[0], fleet()[0]
		b.Name, b.UID = "b", "b1"
		for i := range b.Machines {
			b.Machines[i].UID += "-b"
		}
		configured(&a, generation, "v1", config)
		configured(&b, generation, "v1", config)
		return []world.Cluster{a, b}
	}
	before, now := two(1, nil), two(2, map[string]string{"spec.kubeadmConfigSpec.format": "x"})
	now[1].Machines = append(now[1].Machines, world.Machine{Name: "cp-new", UID: "n", Owner: now[1].Owners[0].Ref})
	res := fence.Judge(fence.Baseline{Clusters: before}, now, nil)
	var got []string
	for _, v := range res.Violations {
		got = append(got, v.Cluster.Name)
	}
	if diff := cmp.Diff([]string{"b", "a"}, got); diff != "" {
		t.Errorf("violated clusters, -want +got:\n%s", diff)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	md := ref("MachineDeployment", "md")
	for name, tc := range map[string]struct {
		before  func(c *world.Cluster)
		now     func(c *world.Cluster)
		excused []string
		// wantUnchanged counts Machines; wantViolations and wantExpected are the messages.
		wantUnchanged  int32
		wantViolations []string
		wantExpected   []string
	}{
		"nothing happened": {wantUnchanged: 5},
		"a template field that was not there before is named": {
			now:           func(c *world.Cluster) { c.Owners[0].Template["spec.rollout.after"] = "2026-01-01" },
			wantUnchanged: 5,
			wantViolations: []string{
				`KubeadmControlPlane ns/cp of cluster ns/a changed spec.rollout.after from "" to "2026-01-01": its Machines are about to be replaced`,
			},
		},
		"a configuration written otherwise is noted while no Machine follows": {
			before: func(c *world.Cluster) { configured(c, 1, "v1", map[string]string{"spec.kubeadmConfigSpec.a": "1"}) },
			now: func(c *world.Cluster) {
				configured(c, 2, "v1", map[string]string{"spec.kubeadmConfigSpec.a": "1", "spec.kubeadmConfigSpec.format": "2"})
			},
			wantUnchanged: 5,
			wantExpected:  []string{"KubeadmControlPlane ns/cp of cluster ns/a changed spec.kubeadmConfigSpec.format (it was not set before)"},
		},
		"a configuration that only reads otherwise is none": {
			before:        func(c *world.Cluster) { configured(c, 1, "v1", map[string]string{"a": "1"}) },
			now:           func(c *world.Cluster) { configured(c, 1, "v1", map[string]string{"a": "2"}) },
			wantUnchanged: 5,
		},
		"a configuration read in another version says nothing": {
			before:        func(c *world.Cluster) { configured(c, 1, "v1", map[string]string{"a": "1"}) },
			now:           func(c *world.Cluster) { configured(c, 2, "v2", map[string]string{"b": "2"}) },
			wantUnchanged: 5,
		},
		"the configuration is named when a Machine follows it, even towards the number that is asked for": {
			before: func(c *world.Cluster) {
				configured(c, 1, "v1", map[string]string{"a": "1", "b": "1", "c": "1"})
				c.Owners[0].Replicas = 4
			},
			now: func(c *world.Cluster) {
				configured(c, 2, "v1", map[string]string{"a": "2", "b": "1", "d": "1"})
				c.Owners[0].Replicas = 4
				c.Machines = append(c.Machines, world.Machine{Name: "cp-new", UID: "n", Owner: c.Owners[0].Ref})
			},
			wantUnchanged: 5,
			wantViolations: []string{
				"KubeadmControlPlane ns/cp of cluster ns/a made Machine cp-new although nobody asked for it: a, c (it is not set any more), d (it was not set before)",
			},
		},
		"a configuration written otherwise counts at once in a cluster that a run holds": {
			before: func(c *world.Cluster) { configured(c, 1, "v1", map[string]string{"a": "1"}) },
			now: func(c *world.Cluster) {
				configured(c, 2, "v1", map[string]string{"a": "2"})
				c.HeldFor = "run"
			},
			wantUnchanged:  5,
			wantViolations: []string{"KubeadmControlPlane ns/cp of cluster ns/a changed a: its Machines are about to be replaced"},
		},
		"a Machine more is a violation that names owner and Machine": {
			now: func(c *world.Cluster) {
				c.Machines = append(c.Machines, world.Machine{Name: "md-new", UID: "n", Owner: md})
			},
			wantUnchanged:  5,
			wantViolations: []string{"MachineDeployment ns/md of cluster ns/a made Machine md-new although nobody asked for it"},
		},
		"a Machine replaced by one of the same name is a violation": {
			now:            func(c *world.Cluster) { c.Machines[4].UID = "other" },
			wantUnchanged:  4,
			wantViolations: []string{"MachineDeployment ns/md of cluster ns/a made Machine md-1 and lost Machine md-1 although nobody asked for it"},
		},
		"a Machine on its way out is lost already": {
			now:            func(c *world.Cluster) { c.Machines[3].Deleting = true },
			wantUnchanged:  4,
			wantViolations: []string{"MachineDeployment ns/md of cluster ns/a lost Machine md-0 although nobody asked for it"},
		},
		"a template field that changed is named with both values before a Machine follows": {
			now:           func(c *world.Cluster) { c.Owners[0].Template["spec.version"] = "v2" },
			wantUnchanged: 5,
			wantViolations: []string{
				`KubeadmControlPlane ns/cp of cluster ns/a changed spec.version from "v1" to "v2": its Machines are about to be replaced`,
			},
		},
		"a scale-up that was asked for is expected": {
			now: func(c *world.Cluster) {
				c.Owners[1].Replicas = 3
				c.Machines = append(c.Machines, world.Machine{Name: "md-new", UID: "n", Owner: md})
			},
			wantUnchanged: 5,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: was scaled from 2 to 3"},
		},
		"a scale-up that is half-way is expected": {
			now: func(c *world.Cluster) {
				c.Owners[1].Replicas = 5
				c.Machines = append(c.Machines, world.Machine{Name: "md-new", UID: "n", Owner: md})
			},
			wantUnchanged: 5,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: is being scaled from 2 to 5"},
		},
		"a scale-down that is half-way is expected: control planes go one at a time": {
			now: func(c *world.Cluster) {
				c.Owners[0].Replicas = 1
				c.Machines = c.Machines[1:]
			},
			wantUnchanged: 4,
			wantExpected:  []string{"KubeadmControlPlane ns/cp of cluster ns/a: is being scaled from 3 to 1"},
		},
		"a scale-up that was half-way before the run may go on": {
			before: func(c *world.Cluster) { c.Owners[1].Replicas = 4 },
			now: func(c *world.Cluster) {
				c.Owners[1].Replicas = 4
				c.Machines = append(c.Machines, world.Machine{Name: "md-new", UID: "n", Owner: md})
			},
			wantUnchanged: 5,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: was on its way from 2 to 4 Machines before the run"},
		},
		"more Machines than a scale-up asked for are a violation": {
			now: func(c *world.Cluster) {
				c.Owners[1].Replicas = 3
				for _, uid := range []string{"n1", "n2"} {
					c.Machines = append(c.Machines, world.Machine{Name: uid, UID: uid, Owner: md})
				}
			},
			wantUnchanged:  5,
			wantViolations: []string{"MachineDeployment ns/md of cluster ns/a made Machine n1, n2 although nobody asked for it"},
		},
		"a rollout is a violation also when the owner is read in another version by now": {
			now: func(c *world.Cluster) {
				for i := range c.Owners {
					c.Owners[i].Ref.APIVersion = "x/v2"
				}
				for i := range c.Machines {
					c.Machines[i].Owner.APIVersion = "x/v2"
				}
				c.Machines[4].UID = "other"
			},
			wantUnchanged:  4,
			wantViolations: []string{"MachineDeployment ns/md of cluster ns/a made Machine md-1 and lost Machine md-1 although nobody asked for it"},
		},
		"a template that changed is a violation also when the owner is read in another version by now": {
			now: func(c *world.Cluster) {
				for i := range c.Owners {
					c.Owners[i].Ref.APIVersion = "x/v2"
				}
				c.Owners[0].Template["spec.version"] = "v2"
			},
			wantUnchanged: 5,
			wantViolations: []string{
				`KubeadmControlPlane ns/cp of cluster ns/a changed spec.version from "v1" to "v2": its Machines are about to be replaced`,
			},
		},
		"a scale-down that was asked for is expected": {
			now: func(c *world.Cluster) {
				c.Owners[1].Replicas = 1
				c.Machines = c.Machines[:4]
			},
			wantUnchanged: 4,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: was scaled from 2 to 1"},
		},
		"a scale-up does not excuse a replacement beside it": {
			now: func(c *world.Cluster) {
				c.Owners[1].Replicas = 3
				c.Machines[4].UID = "other"
				c.Machines = append(c.Machines, world.Machine{Name: "md-new", UID: "n", Owner: md})
			},
			wantUnchanged:  4,
			wantViolations: []string{"MachineDeployment ns/md of cluster ns/a made Machine md-1, md-new and lost Machine md-1 although nobody asked for it"},
		},
		"a deleted pool takes its Machines along": {
			now: func(c *world.Cluster) {
				c.Owners = c.Owners[:1]
				c.Machines = c.Machines[:3]
			},
			wantUnchanged: 3,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: is being deleted"},
		},
		"a remediated Machine is expected while it goes": {
			now: func(c *world.Cluster) {
				c.Machines[4].Deleting, c.Machines[4].Remediated = true, true
			},
			wantUnchanged: 4,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: replaces Machine md-1, which its health check gave up"},
		},
		"a remediated Machine stays excused once it is gone": {
			now: func(c *world.Cluster) {
				c.Machines[4] = world.Machine{Name: "md-new", UID: "n", Owner: md}
			},
			excused:       []string{"md1"},
			wantUnchanged: 4,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: replaces Machine md-1, which its health check gave up"},
		},
		"a Machine that was going before the run may go": {
			before:        func(c *world.Cluster) { c.Machines[4].Deleting = true },
			now:           func(c *world.Cluster) { c.Machines = c.Machines[:4] },
			wantUnchanged: 4,
			wantExpected:  []string{"MachineDeployment ns/md of cluster ns/a: Machine md-1 was being deleted before the run"},
		},
		"a cluster made anew under the same name is not the old one": {
			now:          func(c *world.Cluster) { c.UID = "a2" },
			wantExpected: []string{"Cluster ns/a was deleted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, now := fleet(), fleet()
			if tc.before != nil {
				tc.before(&before[0])
				tc.before(&now[0])
			}
			if tc.now != nil {
				tc.now(&now[0])
			}
			got := fence.Judge(fence.Baseline{Clusters: before}, now, tc.excused)
			var messages []string
			for _, v := range got.Violations {
				messages = append(messages, v.Message)
			}
			if got.Machines != 5 || got.Unchanged != tc.wantUnchanged {
				t.Errorf("%d of %d unchanged, want %d of 5", got.Unchanged, got.Machines, tc.wantUnchanged)
			}
			if diff := cmp.Diff(tc.wantViolations, messages); diff != "" {
				t.Errorf("violations, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantExpected, got.Expected); diff != "" {
				t.Errorf("expected changes, -want +got:\n%s", diff)
			}
		})
	}
}

func TestNewClusterIsExpected(t *testing.T) {
	t.Parallel()
	got := fence.Judge(fence.Baseline{}, fleet(), nil)
	if diff := cmp.Diff(fence.Result{Expected: []string{"Cluster ns/a is new"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBaselineSurvivesEncoding(t *testing.T) {
	t.Parallel()
	want := fence.Baseline{Clusters: fleet()}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := fence.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
