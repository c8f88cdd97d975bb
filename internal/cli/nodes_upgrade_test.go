// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

func rollPlan() *v1alpha1.PlanSpec {
	return &v1alpha1.PlanSpec{
		Kind: v1alpha1.PlanNodes, Release: v1alpha1.ReleaseReference{Name: "i", Version: "i"},
		Pools: []v1alpha1.PlannedPool{{
			Cluster: "ns/a", Owner: v1alpha1.ObjectReference{Kind: "KubeadmControlPlane", Namespace: "ns", Name: "cp"}, Replicas: 3,
			Strategy: v1alpha1.StrategyScaleIn, NewTemplate: v1alpha1.ObjectReference{Name: "t-1"},
		}},
		Forecast: v1alpha1.Forecast{MachinesReplaced: 3},
	}
}

// TestNodesUpgrade checks what a roll says and how it ends.
func TestNodesUpgrade(t *testing.T) {
	t.Parallel()
	open := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: "to-i"}, Spec: v1alpha1.UpgradeSpec{Kind: v1alpha1.PlanNodes, To: "i"}}
	for name, tc := range map[string]struct {
		fake fake
		args []string
		exit problem.Exit
		want []string
	}{
		"it is done": {
			fake: fake{spec: rollPlan(), end: ends(true, metav1.ConditionTrue, v1alpha1.ReasonCompleted, false)},
			args: []string{"nodes", "upgrade", "i", "--yes"}, exit: problem.ExitDone, want: []string{"Done:", "cp", "ScaleIn", "capstan status"},
		},
		"it is aborted": {
			fake: fake{spec: rollPlan(), end: ends(true, metav1.ConditionFalse, v1alpha1.ReasonAborted, false)},
			args: []string{"nodes", "upgrade", "i", "--yes"}, exit: problem.ExitStopped, want: []string{"Aborted", "capstan nodes upgrade i"},
		},
		"there is nothing to do": {
			fake: fake{spec: &v1alpha1.PlanSpec{Kind: v1alpha1.PlanNodes, Release: v1alpha1.ReleaseReference{Name: "i"}}},
			args: []string{"nodes", "upgrade", "i", "--yes"}, exit: problem.ExitDone, want: []string{"nothing to do"},
		},
		"an open run to the same image goes on": {
			fake: fake{spec: rollPlan(), open: open, own: true, end: ends(true, metav1.ConditionTrue, v1alpha1.ReasonCompleted, false)},
			args: []string{"nodes", "upgrade", "i", "--yes"}, exit: problem.ExitDone, want: []string{"going on with it", "Done:"},
		},
		"a plan names the command that runs it": {
			fake: fake{spec: rollPlan()}, args: []string{"nodes", "plan", "i", "--strategy", "scale-in"}, exit: problem.ExitDone,
			want: []string{"Ready: 3 Machines of 1 pool", "Next: capstan nodes upgrade i --strategy scale-in"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := call(t, &tc.fake, tc.args...)
			if got.exit != tc.exit {
				t.Errorf("exit %d, want %d\n%s%s", got.exit, tc.exit, got.out, got.err)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.out+got.err, want) {
					t.Errorf("it does not say %q:\n%s%s", want, got.out, got.err)
				}
			}
		})
	}
}
