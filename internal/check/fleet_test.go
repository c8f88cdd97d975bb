// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/world"
)

// settled is an owner of three Machines with which all is well.
func settled(kind string) world.Rollout {
	return world.Rollout{
		Cluster: "ns/a", Owner: world.Ref{APIVersion: "x/v1", Kind: kind, Namespace: "ns", Name: "o"},
		Desired: new(int64(3)), Current: new(int64(3)), UpToDate: new(int64(3)), ActiveSets: []string{"s"},
	}
}

func TestMoving(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rollout  func(r *world.Rollout)
		cluster  func(c *world.Cluster)
		machines []world.MachineState
		want     []string
	}{
		"all is well":                    {},
		"nobody says how many there are": {rollout: func(r *world.Rollout) { r.Current, r.UpToDate = nil, nil }},
		"one Machine more than is wanted": {
			rollout: func(r *world.Rollout) { r.Current, r.UpToDate = new(int64(4)), new(int64(2)) },
			want:    []string{"Block Cluster ns/a is changing its Machines: MachineDeployment ns/o has 4 of 3 Machines, 2 of 4 Machines up to date"},
		},
		"somebody else decides how many there are": {rollout: func(r *world.Rollout) { r.Elsewhere, r.Current, r.UpToDate = true, new(int64(5)), nil }},
		"a condition says so": {
			rollout: func(r *world.Rollout) { r.Doing = []world.Condition{{Type: "Remediating", Message: "m"}} },
			want:    []string{"Block Cluster ns/a is changing its Machines: MachineDeployment ns/o has the condition Remediating (m)"},
		},
		"Machines in two sets": {
			rollout: func(r *world.Rollout) { r.ActiveSets = []string{"s", "t"} },
			want:    []string{"Block Cluster ns/a is changing its Machines: MachineDeployment ns/o has Machines in 2 MachineSets (s, t)"},
		},
		"a pool that is replaced by hand is at rest": {
			rollout: func(r *world.Rollout) { r.OnDelete, r.UpToDate, r.ActiveSets = true, new(int64(0)), []string{"s", "t"} },
			want: []string{"Warn Cluster ns/a has a change that does not go on by itself: MachineDeployment ns/o waits for its old Machines to be deleted (OnDelete): " +
				"0 of 3 Machines up to date, Machines in 2 MachineSets (s, t)"},
		},
		"a pool that is replaced by hand is being scaled": {
			rollout: func(r *world.Rollout) { r.OnDelete, r.Current = true, new(int64(2)) },
			want:    []string{"Block Cluster ns/a is changing its Machines: MachineDeployment ns/o has 2 of 3 Machines"},
		},
		"a paused owner": {
			rollout: func(r *world.Rollout) { r.Paused, r.Current = true, new(int64(2)) },
			want:    []string{"Warn Cluster ns/a has a change that does not go on by itself: MachineDeployment ns/o is paused with 2 of 3 Machines"},
		},
		"a paused cluster": {
			rollout: func(r *world.Rollout) { r.Current = new(int64(2)) },
			cluster: func(c *world.Cluster) { c.Paused = true },
			want: []string{"Warn Cluster ns/a is paused in the middle of a change, and the new controllers go on with it once it is unpaused: " +
				"MachineDeployment ns/o has 2 of 3 Machines"},
		},
		"a cluster that is being deleted": {
			cluster:  func(c *world.Cluster) { c.Deleting = true },
			machines: []world.MachineState{{Cluster: "ns/a", Name: "m", Deleting: true}},
			want:     []string{"Warn Cluster ns/a is being deleted, which goes on during the upgrade: 1 Machine being deleted (m)"},
		},
		"Machines that come, go and change": {
			machines: []world.MachineState{
				{Cluster: "ns/a", Name: "m1", Phase: "Provisioning"},
				{Cluster: "ns/a", Name: "m2", Phase: "Running", Deleting: true},
				{Cluster: "ns/a", Name: "m3", Phase: "Updating"},
				{Cluster: "ns/a", Name: "m4", Phase: "Failed"},
				{Cluster: "ns/b", Name: "m5", Deleting: true},
			},
			want: []string{"Block Cluster ns/a is changing its Machines: Machine m3 is being updated in place; 1 Machine being deleted (m2); 1 Machine being provisioned (m1)"},
		},
		"a change that nobody has looked at yet": {
			rollout: func(r *world.Rollout) { r.Unseen = true },
			want:    []string{"Warn Cluster ns/a has a change that does not go on by itself: MachineDeployment ns/o has a change that its controller has not looked at yet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := world.Cluster{Namespace: "ns", Name: "a"}, settled("MachineDeployment")
			if tc.cluster != nil {
				tc.cluster(&c)
			}
			if tc.rollout != nil {
				tc.rollout(&r)
			}
			w := &world.World{Clusters: []world.Cluster{c}, Survey: &world.Survey{Fleet: &world.Fleet{Rollouts: []world.Rollout{r}, Machines: tc.machines}}}
			var got []string
			for _, f := range check.Moving(w) {
				got = append(got, string(f.Verdict)+" "+f.Summary)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
