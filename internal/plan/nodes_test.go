// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/world"
)

// rolled is a pool of a plan for nodes.
func rolled(cluster, name string, replicas int64, needs ...string) v1alpha1.PlannedPool {
	return v1alpha1.PlannedPool{
		Cluster: cluster, Owner: v1alpha1.ObjectReference{Kind: "MachineDeployment", Namespace: "ns", Name: name}, Replicas: replicas,
		NewTemplate: v1alpha1.ObjectReference{Kind: "Template", Namespace: "ns", Name: "t"}, Needs: needs,
	}
}

func nodesInput(together int) plan.NodesInput {
	return plan.NodesInput{
		Image: &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "i"}, Spec: v1alpha1.NodeImageSpec{URL: "http://x/i"}},
		Pools: []v1alpha1.PlannedPool{
			rolled("ns/a", "a1", 3), rolled("ns/a", "a2", 2, "machinedeployment/ns/a1"), rolled("ns/b", "b1", 1), rolled("ns/c", "c1", 1),
		},
		World: &world.World{}, Together: together,
	}
}

// TestClustersAtOnce checks which pools wait for which, and how long the longest chain takes: 15 minutes a Machine.
func TestClustersAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		together int
		needs    map[string][]string
		took     time.Duration
	}{
		"one": {together: 1, took: 7 * 15 * time.Minute, needs: map[string][]string{
			"a2": {"machinedeployment/ns/a1"}, "b1": {"machinedeployment/ns/a2"}, "c1": {"machinedeployment/ns/b1"},
		}},
		"two": {together: 2, took: 6 * 15 * time.Minute, needs: map[string][]string{
			"a2": {"machinedeployment/ns/a1"}, "c1": {"machinedeployment/ns/a2"},
		}},
		"more than there are": {together: 9, took: 5 * 15 * time.Minute, needs: map[string][]string{"a2": {"machinedeployment/ns/a1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := plan.ComputeNodes(nodesInput(tc.together))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for _, p := range spec.Pools {
				if len(p.Needs) > 0 {
					got[p.Owner.Name] = p.Needs
				}
			}
			if diff := cmp.Diff(tc.needs, got); diff != "" {
				t.Errorf("needs, -want +got:\n%s", diff)
			}
			if spec.Forecast.Duration.Duration != tc.took || spec.Forecast.MachinesReplaced != 7 || len(spec.Steps) != 12 {
				t.Errorf("the forecast is %+v with %d steps, want %s", spec.Forecast, len(spec.Steps), tc.took)
			}
		})
	}
}

// TestForecastOfARollIsMeasured takes the time of a Machine from the last roll that was completed, and from no upgrade of the
// platform; an upgrade of the platform in turn takes nothing from a roll.
func TestForecastOfARollIsMeasured(t *testing.T) {
	t.Parallel()
	at := func(minute int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 5, 1, 12, minute, 0, 0, time.UTC)}
	}
	run := func(kind v1alpha1.PlanKind, minutes int) v1alpha1.Upgrade {
		return v1alpha1.Upgrade{
			ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.UpgradeSpec{Kind: kind, To: "x", Machines: 10},
			Status: v1alpha1.UpgradeStatus{StartedAt: at(0), FinishedAt: at(minutes), Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted,
			}}},
		}
	}
	in := nodesInput(9)
	in.Past = []v1alpha1.Upgrade{run(v1alpha1.PlanPlatform, 1), run(v1alpha1.PlanNodes, 20)}
	spec, err := plan.ComputeNodes(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := 5 * 2 * time.Minute; spec.Forecast.Duration.Duration != want {
		t.Errorf("the forecast is %s (%s), want %s", spec.Forecast.Duration.Duration, spec.Forecast.Basis, want)
	}
	if got := plan.Completed(in.Past[1:]); got != "" {
		t.Errorf("a roll of nodes counts as release %q", got)
	}
}

func TestSameImage(t *testing.T) {
	t.Parallel()
	in := nodesInput(1)
	spec, err := plan.ComputeNodes(in)
	if err != nil {
		t.Fatal(err)
	}
	other := in.Image.DeepCopy()
	other.Spec.Contents.KernelVersion = "6.8"
	for name, tc := range map[string]struct {
		spec  *v1alpha1.PlanSpec
		image *v1alpha1.NodeImage
		want  bool
	}{
		"the same":                {spec, in.Image, true},
		"the same, other content": {spec, other, false},
		"no plan":                 {nil, in.Image, false},
	} {
		if got, err := plan.SameImage(tc.spec, tc.image); got != tc.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}
