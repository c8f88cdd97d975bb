// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/engine"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/testbed"
	"github.com/capstan-dev/capstan/internal/world"
)

func ownerRef(kind, name string) world.Ref {
	return world.Ref{APIVersion: "x.io/v1", Kind: kind, Namespace: "default", Name: name}
}

// newRoll is a control plane of three and a pool of two, about to be rolled to another image.
func newRoll(t *testing.T, strategy v1alpha1.RollStrategy) *scenario {
	t.Helper()
	contents := map[string]v1alpha1.NodeImageContents{"old": {KernelVersion: "5.15"}, "new": {KernelVersion: "6.8"}, "newer": {KernelVersion: "6.11"}}
	c := testbed.New(start)
	cp := testbed.NewPool(ownerRef("KubeadmControlPlane", "cp"), 3, "old", contents)
	md := testbed.NewPool(ownerRef("MachineDeployment", "md"), 2, "old", contents)
	c.Pools = []*testbed.Pool{cp, md}
	if strategy == v1alpha1.StrategySurge {
		cp.Hosts, md.Hosts = 4, 3
	}
	c.Have(thing("m.io/v1", "MachineHealthCheck", "default", "mhc", map[string]any{}))
	c.Start(&v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Name: runName},
		Spec:       v1alpha1.UpgradeSpec{Kind: v1alpha1.PlanNodes, Plan: "p", To: "new", Intent: v1alpha1.IntentRun, StallLimit: metav1.Duration{Duration: time.Minute}},
	})
	s := &scenario{cluster: c, work: &engine.Work{Baseline: fence.Outside(fleet(), []string{"default/fleet-1"})}}
	s.rollTo(t, strategy, "new", "6.8")
	return s
}

// rollTo makes the steps of a roll of both pools to a template.
func (s *scenario) rollTo(t *testing.T, strategy v1alpha1.RollStrategy, template, kernel string) {
	t.Helper()
	var pools []v1alpha1.PlannedPool
	for _, p := range s.cluster.Pools {
		owner := v1alpha1.ObjectReference(world.RefOf(p.Object))
		pool := v1alpha1.PlannedPool{
			Cluster: "default/fleet-1", Owner: owner, ControlPlane: owner.Kind == "KubeadmControlPlane", Replicas: p.Object.Object["spec"].(map[string]any)["replicas"].(int64),
			OldTemplate: v1alpha1.ObjectReference{APIVersion: "t.io/v1", Kind: "Template", Namespace: "default", Name: "old"},
			NewTemplate: v1alpha1.ObjectReference{APIVersion: "t.io/v1", Kind: "Template", Namespace: "default", Name: template},
			TemplateRef: "spec.template", Artifact: "a", Strategy: strategy, Expect: v1alpha1.NodeImageContents{KernelVersion: kernel},
			Settings: []v1alpha1.RollSetting{{
				Object: v1alpha1.ObjectReference{APIVersion: "m.io/v1", Kind: "MachineHealthCheck", Namespace: "default", Name: "mhc"},
				Path:   []string{"metadata", "annotations", "cluster.x-k8s.io/paused"}, During: `"capstan"`,
			}},
		}
		if strategy == v1alpha1.StrategyScaleIn {
			pool.Settings = append(pool.Settings, v1alpha1.RollSetting{Object: owner, Path: []string{"spec", "maxSurge"}, Before: "1", During: "0"})
		}
		if !pool.ControlPlane {
			pool.Needs = []string{nodes.Key(pools[0].Owner)}
		}
		pools = append(pools, pool)
	}
	steps, err := nodes.Build(pools, map[string]*unstructured.Unstructured{"a": thing("t.io/v1", "Template", "default", template, map[string]any{"image": template})})
	if err != nil {
		t.Fatal(err)
	}
	s.work.Steps = steps
}

// outcome says what a roll came to: the Machines by template, how many were ever made, and what was put back.
func (s *scenario) outcome() []string {
	var out []string
	for _, p := range s.cluster.Pools {
		by := map[string]int{}
		for _, m := range p.Machines {
			by[m.Template]++
		}
		spec := p.Object.Object["spec"]
		_, paused := p.Object.GetAnnotations()["cluster.x-k8s.io/paused"]
		out = append(out, fmt.Sprintf("%s: %v of %d made, spec %v, paused %t, at most %d down and %d leaving", p.Object.GetName(), by, p.Made(), spec, paused, p.WorstDown, p.MostLeaving))
	}
	for _, c := range s.cluster.Contents() {
		if strings.HasPrefix(c, "MachineHealthCheck") {
			out = append(out, c)
		}
	}
	return out
}

func TestRoll(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1alpha1.RollStrategy{v1alpha1.StrategySurge, v1alpha1.StrategyScaleIn} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newRoll(t, strategy)
			out, err := s.follow(t, s.engine("first"))
			if err != nil || !out.Ended {
				t.Fatalf("follow: %+v, %v\n%s", out, err, strings.Join(s.log, "\n"))
			}
			golden(t, "roll-"+strings.ToLower(string(strategy)), strings.Join(s.log, "\n")+"\n\nchanges:\n"+strings.Join(s.cluster.Changes, "\n")+"\n\n"+strings.Join(s.outcome(), "\n")+"\n")
		})
	}
}

// TestRollCrashMatrix loses the process before and after every write of a roll. Whoever goes on replaces no Machine twice.
func TestRollCrashMatrix(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1alpha1.RollStrategy{v1alpha1.StrategySurge, v1alpha1.StrategyScaleIn} {
		undisturbed := newRoll(t, strategy)
		undisturbed.cluster.CrashAt(0, false)
		if _, err := undisturbed.follow(t, undisturbed.engine("first")); err != nil {
			t.Fatal(err)
		}
		want, writes := undisturbed.outcome(), undisturbed.cluster.Writes()
		if writes < 20 {
			t.Fatalf("the undisturbed roll made %d writes: too few for a matrix", writes)
		}
		for n := 1; n <= writes; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, write %d of %d, after=%t", strategy, n, writes, after), func(t *testing.T) {
					t.Parallel()
					s := newRoll(t, strategy)
					s.cluster.CrashAt(n, after)
					if _, err := s.follow(t, s.engine("first")); !errors.Is(err, testbed.ErrCrash) {
						t.Fatalf("the first process was to crash at write %d, got %v", n, err)
					}
					if n%2 == 0 {
						s.cluster.WipeStatus(runName)
					}
					s.cluster.CrashAt(0, false)
					if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
						t.Fatalf("go on: %+v, %v", out, err)
					}
					if diff := cmp.Diff(want, s.outcome()); diff != "" {
						t.Errorf("the outcome, -undisturbed +resumed:\n%s", diff)
					}
				})
			}
		}
	}
}

// TestRollStopsAtTheFirstWrongNode is an image that holds something else than its catalog entry says. One node comes up
// with it, and no second Machine goes. The next roll, to an image that is right, mends it.
func TestRollStopsAtTheFirstWrongNode(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1alpha1.RollStrategy{v1alpha1.StrategySurge, v1alpha1.StrategyScaleIn} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newRoll(t, strategy)
			s.rollTo(t, strategy, "new", "6.9")
			out, err := s.follow(t, s.engine("first"))
			if err != nil || !out.Stopped {
				t.Fatalf("follow: %+v, %v", out, err)
			}
			stops := s.cluster.Run(runName).Status.Stops
			if len(stops) != 1 || stops[0].Reason != v1alpha1.StopImageMismatch || !strings.Contains(stops[0].Message, "kernel is 6.8, not 6.9") {
				t.Errorf("stops are %+v", stops)
			}
			cp := s.cluster.Pools[0]
			old := slices.DeleteFunc(slices.Clone(cp.Machines), func(m *testbed.SimMachine) bool { return m.Template != "old" })
			if wantOld := map[v1alpha1.RollStrategy]int{v1alpha1.StrategySurge: 3, v1alpha1.StrategyScaleIn: 2}[strategy]; len(old) != wantOld {
				t.Errorf("%d old Machines are left, want %d", len(old), wantOld)
			}
			s.rollTo(t, strategy, "newer", "6.11")
			s.cluster.Resume(runName)
			if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
				t.Fatalf("the second roll: %+v, %v\n%s", out, err, strings.Join(s.log, "\n"))
			}
			for _, p := range s.cluster.Pools {
				for _, m := range p.Machines {
					if m.Template != "newer" {
						t.Errorf("%s is of template %s", m.Name, m.Template)
					}
				}
				if p.WorstDown > 1 || p.MostLeaving > 1 {
					t.Errorf("%s had %d down and %d leaving at once", p.Object.GetName(), p.WorstDown, p.MostLeaving)
				}
			}
		})
	}
}

// TestRollIsAborted ends a roll half-way: its owner is paused, settings and hooks are as before, and nobody goes on.
func TestRollIsAborted(t *testing.T) {
	t.Parallel()
	s := newRoll(t, v1alpha1.StrategyScaleIn)
	e := s.engine("first")
	for s.cluster.Pools[0].Made() < 4 {
		if _, err := e.Tick(t.Context(), runName); err != nil {
			t.Fatal(err)
		}
	}
	s.cluster.Steer(runName, v1alpha1.IntentAbort)
	if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
		t.Fatalf("abort: %+v, %v", out, err)
	}
	for range 50 {
		s.cluster.Settle()
	}
	cp := s.cluster.Pools[0]
	if _, paused := cp.Object.GetAnnotations()["cluster.x-k8s.io/paused"]; !paused || cp.Made() != 4 {
		t.Errorf("the control plane is paused: %t, and made %d Machines", paused, cp.Made())
	}
	for _, m := range cp.Machines {
		if !m.Deleting && len(m.Hooks) > 0 {
			t.Errorf("%s still has hooks %v", m.Name, m.Hooks)
		}
	}
	for _, line := range s.outcome() {
		if strings.Contains(line, "maxSurge:0") {
			t.Errorf("a setting was not put back: %s", line)
		}
	}
}

// TestRollWaitsForWhatIsNotWell gives a control plane one node that never becomes Ready: nothing is taken away besides.
func TestRollWaitsForWhatIsNotWell(t *testing.T) {
	t.Parallel()
	s := newRoll(t, v1alpha1.StrategyScaleIn)
	s.cluster.Pools[0].Sick[3] = true
	out, err := s.follow(t, s.engine("first"))
	if err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	if left := s.cluster.Pools[0].Made(); left != 3 {
		t.Errorf("%d Machines were made, want none beyond the 3", left)
	}
	if stops := s.cluster.Run(runName).Status.Stops; len(stops) == 0 || stops[0].Reason != v1alpha1.StopMachineUnhealthy {
		t.Errorf("stops are %+v", stops)
	}
}

// TestRollWithoutTheHostItWasPlannedWith takes the standby host away after the plan: the new Machine waits for ever, which
// is said with what each host is in use for. A host more, and the roll goes on.
func TestRollWithoutTheHostItWasPlannedWith(t *testing.T) {
	t.Parallel()
	s := newRoll(t, v1alpha1.StrategySurge)
	s.cluster.Pools[0].Hosts = 3
	out, err := s.follow(t, s.engine("first"))
	if err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	stops := s.cluster.Run(runName).Status.Stops
	if len(stops) != 1 || stops[0].Reason != v1alpha1.StopNoHost || !strings.Contains(stops[0].Message, "h1 is in use by Metal3Machine default/cp-01") {
		t.Errorf("stops are %+v", stops)
	}
	if cp := s.cluster.Pools[0]; cp.WorstDown != 0 || cp.Made() != 4 {
		t.Errorf("%d were down and %d made, want none and 4", cp.WorstDown, cp.Made())
	}
	s.cluster.Pools[0].Hosts = 4
	s.cluster.Resume(runName)
	if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
		t.Fatalf("go on: %+v, %v", out, err)
	}
}
