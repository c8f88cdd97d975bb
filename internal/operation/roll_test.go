// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/roll"
	"github.com/capstan-dev/capstan/internal/world"
)

func plannedPool(name string, settings ...v1alpha1.RollSetting) v1alpha1.PlannedPool {
	return v1alpha1.PlannedPool{Cluster: "ns/a", Owner: v1alpha1.ObjectReference{Kind: "MachineDeployment", Namespace: "ns", Name: name}, Settings: settings}
}

func surge(before, during string) v1alpha1.RollSetting {
	return v1alpha1.RollSetting{Object: v1alpha1.ObjectReference{Kind: "MachineDeployment", Name: "x"}, Path: []string{"spec", "maxSurge"}, Before: before, During: during}
}

// TestARollTakesOver checks what a roll makes of one that stopped: settings go back to what they were before either.
func TestARollTakesOver(t *testing.T) {
	t.Parallel()
	image := &v1alpha1.NodeImage{Spec: v1alpha1.NodeImageSpec{Contents: v1alpha1.NodeImageContents{KernelVersion: "6.8"}}}
	pause := v1alpha1.RollSetting{Object: v1alpha1.ObjectReference{Kind: "MachineHealthCheck", Name: "m"}, Path: []string{"metadata"}, During: `"capstan-roll"`}
	went := plannedPool("cp", surge("1", "0"))
	went.Expect = image.Spec.Contents
	for name, tc := range map[string]struct {
		now     roll.Result
		earlier *v1alpha1.PlanSpec
		want    []v1alpha1.PlannedPool
		reason  string
	}{
		"nothing stopped": {now: roll.Result{Pools: []v1alpha1.PlannedPool{plannedPool("w", surge("0", "0"))}}, want: []v1alpha1.PlannedPool{plannedPool("w", surge("0", "0"))}},
		"what it had set is put back to what was before it": {
			now:     roll.Result{Pools: []v1alpha1.PlannedPool{plannedPool("w", surge("0", "1"))}},
			earlier: &v1alpha1.PlanSpec{Pools: []v1alpha1.PlannedPool{plannedPool("w", surge("1", "0"), pause)}},
			want:    []v1alpha1.PlannedPool{plannedPool("w", surge("1", "1"), pause)},
		},
		"what a person set meanwhile stays": {
			now:     roll.Result{Pools: []v1alpha1.PlannedPool{plannedPool("w", surge("2", "1"))}},
			earlier: &v1alpha1.PlanSpec{Pools: []v1alpha1.PlannedPool{plannedPool("w", surge("1", "0"))}},
			want:    []v1alpha1.PlannedPool{plannedPool("w", surge("2", "1"))},
		},
		"a pool that has the template goes on first": {
			now: roll.Result{
				Pools:    []v1alpha1.PlannedPool{plannedPool("w", surge("1", "0"))},
				UpToDate: []world.Ref{{APIVersion: "v9", Kind: "MachineDeployment", Namespace: "ns", Name: "cp"}, {Kind: "MachineDeployment", Namespace: "ns", Name: "cp"}},
			},
			earlier: &v1alpha1.PlanSpec{Pools: []v1alpha1.PlannedPool{plannedPool("cp", surge("1", "0"))}},
			want: []v1alpha1.PlannedPool{went, func() v1alpha1.PlannedPool {
				p := plannedPool("w", surge("1", "0"))
				p.Needs = []string{"machinedeployment/ns/cp"}
				return p
			}()},
		},
		"a pool that is left out": {
			now:     roll.Result{Pools: []v1alpha1.PlannedPool{plannedPool("w")}},
			earlier: &v1alpha1.PlanSpec{Pools: []v1alpha1.PlannedPool{plannedPool("other")}}, reason: "RunUnderWay",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := carryOver(&tc.now, tc.earlier, image)
			if p, refused := errors.AsType[*problem.Error](err); tc.reason != "" {
				if !refused || p.Reason != tc.reason {
					t.Errorf("error is %v, want %s", err, tc.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pools, -want +got:\n%s", diff)
			}
		})
	}
}
