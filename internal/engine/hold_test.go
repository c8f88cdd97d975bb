// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testbed"
	"github.com/capstan-dev/capstan/internal/world"
)

// selfHosted is a scenario in which the only cluster is the management cluster itself.
func selfHosted(t *testing.T, paused string) *scenario {
	t.Helper()
	s := newScenario(t)
	s.work.Hold = []world.Ref{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Namespace: "default", Name: "fleet-1"}}
	s.cluster.Fleet[0].SpecPaused, s.cluster.Fleet[0].Paused = paused, paused == "true"
	return s
}

// pausing is what a Cluster says about being paused.
func pausing(c world.Cluster) string {
	return fmt.Sprintf("spec.paused=%q held-for=%q paused-by=%q before=%q", c.SpecPaused, c.HeldFor, c.PausedBy, c.PausedBefore)
}

func TestManagementClusterIsHeldWhileComponentsMove(t *testing.T) {
	t.Parallel()
	for _, paused := range []string{"", "false", "true"} {
		t.Run("spec.paused "+paused, func(t *testing.T) {
			t.Parallel()
			s := selfHosted(t, paused)
			before := pausing(s.cluster.Fleet[0])
			e := s.engine("first")
			for range 500 {
				made := len(s.cluster.Changes)
				out, err := e.Tick(t.Context(), runName)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range s.cluster.Changes[made:] {
					if !strings.Contains(c, "Cluster") && !s.cluster.Fleet[0].Paused {
						t.Fatalf("%s although the cluster is not paused", c)
					}
				}
				if out.Ended {
					break
				}
				s.cluster.Clock.Step(out.After)
			}
			if got := reason(s.cluster.Run(runName)); got != "True/Completed" {
				t.Fatalf("Succeeded is %s", got)
			}
			if got := pausing(s.cluster.Fleet[0]); got != before {
				t.Errorf("afterwards the cluster has %s, want %s", got, before)
			}
		})
	}
}

func TestManagementClusterIsPutBackWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			s := selfHosted(t, "false")
			want := pausing(s.cluster.Fleet[0])
			s.cluster.CrashAt(n, after)
			_, err := s.follow(t, s.engine("first"))
			if err == nil {
				break
			}
			if !errors.Is(err, testbed.ErrCrash) {
				t.Fatal(err)
			}
			s.cluster.CrashAt(0, false)
			if n%2 == 0 {
				s.cluster.WipeStatus(runName)
			}
			if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
				t.Fatalf("write %d, after %t: %+v, %v", n, after, out, err)
			}
			if got := pausing(s.cluster.Fleet[0]); got != want {
				t.Errorf("write %d, after %t: the cluster has %s, want %s", n, after, got, want)
			}
		}
	}
}

func TestAbortPutsTheManagementClusterBack(t *testing.T) {
	t.Parallel()
	s := selfHosted(t, "")
	want := pausing(s.cluster.Fleet[0])
	s.cluster.Broken["core-controller"] = world.Cause{Reason: v1alpha1.StopNotReady, Message: "Pod core/x is not ready"}
	if out, err := s.follow(t, s.engine("first")); err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	if !s.cluster.Fleet[0].Paused {
		t.Error("the cluster is not paused while the run is stopped half-way")
	}
	run := s.cluster.Run(runName)
	run.Spec.Intent = v1alpha1.IntentAbort
	s.cluster.Start(run)
	if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
		t.Fatalf("abort: %+v, %v", out, err)
	}
	if got := pausing(s.cluster.Fleet[0]); got != want {
		t.Errorf("the cluster has %s, want %s", got, want)
	}
}

// TestChangeOfTheManagementClusterIsNotLetGo is a new controller that writes another template for the cluster that it runs
// on: the run stops, and neither a resume nor an abort lets the cluster replace its nodes.
func TestChangeOfTheManagementClusterIsNotLetGo(t *testing.T) {
	t.Parallel()
	s := selfHosted(t, "false")
	e := s.engine("first")
	for range 6 {
		if _, err := e.Tick(t.Context(), runName); err != nil {
			t.Fatal(err)
		}
	}
	owners := fleet()[0].Owners
	owners[0].Template["spec.version"] = "v1.37.0"
	s.cluster.Fleet[0].Owners = owners
	if out, err := s.follow(t, e); err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	run := s.cluster.Run(runName)
	run.Spec.Intent = v1alpha1.IntentAbort
	s.cluster.Start(run)
	if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
		t.Fatalf("abort: %+v, %v", out, err)
	}
	want := `spec.paused="true" held-for="" paused-by="run-1" before="false"`
	if got := pausing(s.cluster.Fleet[0]); got != want {
		t.Errorf("the cluster has %s, want %s", got, want)
	}
}

// TestClusterThatTheFencePausedIsPutBack is a change that nobody asked for: the run pauses the cluster, names it as long as
// it holds it, and puts back exactly what was there once a person has decided.
func TestClusterThatTheFencePausedIsPutBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before string
		decide func(s *scenario, run *v1alpha1.Upgrade)
	}{
		"an abort puts back spec.paused false": {before: "false", decide: func(_ *scenario, run *v1alpha1.Upgrade) { run.Spec.Intent = v1alpha1.IntentAbort }},
		"an abort puts back no spec.paused":    {decide: func(_ *scenario, run *v1alpha1.Upgrade) { run.Spec.Intent = v1alpha1.IntentAbort }},
		"a resume after the change was taken back ends with it": {before: "false", decide: func(s *scenario, run *v1alpha1.Upgrade) {
			s.cluster.Fleet[0].Owners = fleet()[0].Owners
			run.Spec.Resumes++
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t)
			s.cluster.Fleet = fleet()
			s.cluster.Fleet[0].SpecPaused = tc.before
			want := pausing(s.cluster.Fleet[0])
			e := s.engine("first")
			for range 6 {
				if _, err := e.Tick(t.Context(), runName); err != nil {
					t.Fatal(err)
				}
			}
			s.cluster.Fleet[0].Owners[0].Template["spec.version"] = "v1.37.0"
			if out, err := s.follow(t, e); err != nil || !out.Stopped {
				t.Fatalf("follow: %+v, %v", out, err)
			}
			if c := s.cluster.Fleet[0]; !c.Paused || c.PausedBy != runName {
				t.Fatalf("the cluster has %s after the change", pausing(c))
			}
			run := s.cluster.Run(runName)
			tc.decide(s, run)
			s.cluster.Start(run)
			if out, err := s.follow(t, s.engine("second")); err != nil || !out.Ended {
				t.Fatalf("follow: %+v, %v", out, err)
			}
			if got := pausing(s.cluster.Fleet[0]); got != want {
				t.Errorf("the cluster has %s, want %s", got, want)
			}
		})
	}
}

// TestClusterThatAnEarlierRunPausedStaysPaused is a cluster with a change that nobody has decided about yet: a new run
// completes without letting it go.
func TestClusterThatAnEarlierRunPausedStaysPaused(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.cluster.Fleet = fleet()
	c := &s.cluster.Fleet[0]
	c.Paused, c.SpecPaused, c.PausedBy, c.PausedBefore = true, "true", "run-0", "false"
	want := pausing(*c)
	if out, err := s.follow(t, s.engine("first")); err != nil || !out.Ended {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	if got := pausing(s.cluster.Fleet[0]); got != want {
		t.Errorf("the cluster has %s, want %s", got, want)
	}
}
