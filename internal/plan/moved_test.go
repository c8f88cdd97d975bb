// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestMoved(t *testing.T) {
	t.Parallel()
	old := v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "old"}
	deployment := world.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "d"}
	type side struct {
		spec *v1alpha1.PlanSpec
		seen plan.Snapshot
	}
	given := func() side {
		objects := []plan.ObjectState{{Component: "a", Object: deployment, Found: true, Change: "x"}}
		for i := range 7 {
			objects = append(objects, plan.ObjectState{Component: "a", Object: world.Ref{Kind: "ConfigMap", Name: fmt.Sprint(i)}})
		}
		return side{
			spec: &v1alpha1.PlanSpec{
				Base:       v1alpha1.Base{ClusterUID: "u", KubernetesVersion: "v1.36.1", PlatformVersion: "v1", Clusters: 1, Machines: 6},
				Components: []v1alpha1.PlannedComponent{{Name: "a", From: "v1.0.0", To: "v1.1.0", Action: v1alpha1.ActionUpgrade, Strategy: v1alpha1.StrategyRolling, Prune: []v1alpha1.ObjectReference{old}}},
				Steps:      []v1alpha1.PlannedStep{{ID: "swap/a/v1.1.0"}},
				Findings:   []v1alpha1.Finding{{ID: "CAP-W", Verdict: v1alpha1.VerdictWarn, Summary: "2 things", Objects: []v1alpha1.ObjectReference{old}}},
			},
			seen: plan.Snapshot{
				Newest: "run-1", Clusters: map[string]string{"n/one": "1"},
				Objects: objects,
			},
		}
	}
	for name, tc := range map[string]struct {
		move        func(s *side)
		want, noted []string
	}{
		"nothing": {move: func(*side) {}},
		"another cluster is all there is to say": {
			move: func(s *side) { s.spec.Base.ClusterUID, s.spec.Base.KubernetesVersion = "w", "v1.37.0" },
			want: []string{"it is for another management cluster (u, this is w)"},
		},
		"Kubernetes": {
			move: func(s *side) { s.spec.Base.KubernetesVersion = "v1.36.2" },
			want: []string{"Kubernetes is at v1.36.2, was at v1.36.1"},
		},
		"a run in between": {
			move: func(s *side) { s.seen.Newest, s.spec.Base.PlatformVersion = "run-2", "v2" },
			want: []string{"run run-2 was made", "the platform is at v2, was at v1"},
		},
		"clusters": {
			move: func(s *side) { s.seen.Clusters = map[string]string{"n/two": "2"} },
			want: []string{"Cluster n/two has appeared", "Cluster n/one is gone"},
		},
		"a cluster of the same name": {
			move: func(s *side) { s.seen.Clusters["n/one"] = "9" },
			want: []string{"Cluster n/one was deleted and made anew"},
		},
		"Machines that were scaled": {
			move:  func(s *side) { s.spec.Base.Machines = 9 },
			noted: []string{"there are 9 Machines, there were 6: nothing in the plan depends on that"},
		},
		"a component's version": {
			move: func(s *side) { s.spec.Components[0].From, s.seen.Objects[0].Change = "v1.0.5", "says the version" },
			want: []string{"component a is at v1.0.5, was at v1.0.0"},
		},
		"a component that is gone": {
			move: func(s *side) { s.spec.Components[0].From = "" },
			want: []string{"component a is at no version, was at v1.0.0"},
		},
		"what is to be removed": {
			move: func(s *side) { s.spec.Components[0].Prune[0].Name = "new" },
			want: []string{"ConfigMap n/new of a has appeared, which the release does not have", "ConfigMap n/old of a is gone, which was to be removed"},
		},
		"many objects": {
			move: func(s *side) {
				s.seen.Objects = nil
				for i := range 7 {
					s.seen.Objects = append(s.seen.Objects, plan.ObjectState{Component: "a", Object: world.Ref{Kind: "ConfigMap", Name: fmt.Sprint(i)}, Found: true})
				}
			},
			want: []string{
				"ConfigMap 0 of a has appeared", "ConfigMap 1 of a has appeared", "ConfigMap 2 of a has appeared", "ConfigMap 3 of a has appeared", "ConfigMap 4 of a has appeared",
				"2 more objects of a: each has appeared",
			},
		},
		"an object that differs otherwise": {
			move: func(s *side) { s.seen.Objects[0].Change = "y" },
			want: []string{"Deployment n/d of a was changed, the release would now change: "},
		},
		"an object that is there already": {
			move: func(s *side) { s.seen.Objects[0].Change = "" },
			want: []string{"Deployment n/d of a is already as the release has it"},
		},
		"an object that is gone": {
			move: func(s *side) { s.seen.Objects[0].Found = false },
			want: []string{"Deployment n/d of a is gone"},
		},
		"a finding that is new": {
			move: func(s *side) {
				s.spec.Findings = append(s.spec.Findings, v1alpha1.Finding{ID: "CAP-B", Verdict: v1alpha1.VerdictBlock, Summary: "no"})
			},
			want: []string{"finding CAP-B is new: no"},
		},
		"a finding that blocks now": {
			move: func(s *side) { s.spec.Findings[0].Verdict = v1alpha1.VerdictBlock },
			want: []string{"finding CAP-W is new: 2 things"},
		},
		"a finding about the same object in other words": {move: func(s *side) { s.spec.Findings[0].Summary = "3 things" }},
		"a finding that is gone":                         {move: func(s *side) { s.spec.Findings = nil }},
		"a stored version that came": {
			move: func(s *side) {
				s.spec.Components[0].Migrate = []v1alpha1.Migration{{Resource: "xs.x", Drop: []string{"v1alpha1"}, Objects: 3}}
			},
			want: []string{"component a would be handled otherwise: migrate"},
		},
		"decisions of another Capstan": {
			move: func(s *side) {
				s.spec.Components[0].Strategy = v1alpha1.StrategyStopThenStart
				s.spec.Steps = []v1alpha1.PlannedStep{{ID: "stop/a/v1.1.0"}, {ID: "swap/a/v1.1.0"}}
			},
			want: []string{`component a would be handled otherwise: strategy "StopThenStart", was "Rolling"`, "step stop/a/v1.1.0 would be new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			then, now := given(), given()
			tc.move(&now)
			moved, noted := plan.Moved(then.spec, now.spec, then.seen, now.seen)
			if diff := cmp.Diff(moved, tc.want); diff != "" {
				t.Errorf("moved, got -, want +:\n%s", diff)
			}
			if diff := cmp.Diff(noted, tc.noted); diff != "" {
				t.Errorf("noted, got -, want +:\n%s", diff)
			}
		})
	}
}
