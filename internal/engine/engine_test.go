// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testbed"
	"github.com/capstan-dev/capstan/internal/world"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // a fixed name below testdata
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs, -want +got (run with -update to accept):\n%s", path, diff)
	}
}

// reason is why a run stands or stood where it is.
func reason(u *v1alpha1.Upgrade) string {
	for _, c := range u.Status.Conditions {
		if c.Type == v1alpha1.ConditionSucceeded {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return "none"
}

func TestRunGoesFromStartToEnd(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	out, err := s.follow(t, s.engine("first"))
	if err != nil || !out.Ended {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	golden(t, "run", strings.Join(s.log, "\n")+"\n\nchanges:\n"+strings.Join(s.cluster.Changes, "\n")+"\n")
	if got := reason(s.cluster.Run(runName)); got != "True/Completed" {
		t.Errorf("Succeeded is %s, want True/Completed", got)
	}
}

// TestCrashMatrix loses the process before and after every single write of the run, keeps or wipes the status, and
// has another process resume. Every way must end in the same world, with every change made once and in the same order.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	undisturbed := newScenario(t)
	undisturbed.cluster.CrashAt(0, false)
	if _, err := undisturbed.follow(t, undisturbed.engine("first")); err != nil {
		t.Fatal(err)
	}
	writes := undisturbed.cluster.Writes()
	if writes < 20 {
		t.Fatalf("the undisturbed run made %d writes: too few for a matrix", writes)
	}
	for n := 1; n <= writes; n++ {
		for _, after := range []bool{false, true} {
			for _, wipe := range []bool{false, true} {
				t.Run(fmt.Sprintf("write %d of %d, after=%t, status wiped=%t", n, writes, after, wipe), func(t *testing.T) {
					t.Parallel()
					crashAndResume(t, undisturbed, n, after, wipe)
				})
			}
		}
	}
}

// byComponent lists the changes of each component in the order in which they were made, and whether core came first.
func byComponent(s *scenario) map[string][]string {
	out := map[string][]string{}
	var stored []string
	for _, change := range s.cluster.Changes {
		if strings.Contains(change, "infra-thing") { // stored objects are migrated without waiting for core
			stored = append(stored, change)
			continue
		}
		component := "core"
		for _, c := range []string{"bootstrap", "infra"} {
			if strings.Contains(change, c) {
				component = c
			}
		}
		if component == "core" && len(out) > 1 && !strings.Contains(change, "Provider capi-system") {
			component = "core, too late" // only its record may follow: others wait for what it serves
		}
		out[component] = append(out[component], change)
	}
	out["stored"] = stored
	return out
}

func crashAndResume(t *testing.T, undisturbed *scenario, n int, after, wipe bool) {
	t.Helper()
	s := newScenario(t)
	s.cluster.CrashAt(n, after)
	if _, err := s.follow(t, s.engine("first")); !errors.Is(err, testbed.ErrCrash) {
		t.Fatalf("the first process was to crash at write %d, got %v", n, err)
	}
	s.cluster.CrashAt(0, false)
	if wipe {
		s.cluster.WipeStatus(runName)
	}
	out, err := s.follow(t, s.engine("second"))
	if err != nil || !out.Ended {
		t.Fatalf("resume: %+v, %v", out, err)
	}
	if diff := cmp.Diff(byComponent(undisturbed), byComponent(s)); diff != "" {
		t.Errorf("changes differ from the undisturbed run, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(undisturbed.cluster.Contents(), s.cluster.Contents()); diff != "" {
		t.Errorf("the world differs from the undisturbed run, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(undisturbed.cluster.Stores[infraStore].Text(), s.cluster.Stores[infraStore].Text()); diff != "" {
		t.Errorf("stored objects differ from the undisturbed run, -want +got:\n%s", diff)
	}
	if got := reason(s.cluster.Run(runName)); got != "True/Completed" {
		t.Errorf("Succeeded is %s, want True/Completed", got)
	}
}

// TestCrashTwice loses the second process too, at every write of its own, so that a takeover of a takeover is covered.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	undisturbed := newScenario(t)
	if _, err := undisturbed.follow(t, undisturbed.engine("first")); err != nil {
		t.Fatal(err)
	}
	for first := 5; first < 40; first += 7 {
		for second := 1; second < 30; second += 3 {
			s := newScenario(t)
			for i, n := range []int{first, second} {
				s.cluster.CrashAt(n, n%2 == 0)
				if out, err := s.follow(t, s.engine(fmt.Sprint("process ", i))); err == nil && out.Ended {
					break
				}
			}
			s.cluster.CrashAt(0, false)
			if out, err := s.follow(t, s.engine("last")); err != nil || !out.Ended {
				t.Fatalf("crashes at %d and %d: %+v, %v", first, second, out, err)
			}
			if diff := cmp.Diff(byComponent(undisturbed), byComponent(s)); diff != "" {
				t.Errorf("crashes at %d and %d: changes differ, -want +got:\n%s", first, second, diff)
			}
		}
	}
}

func TestBrokenComponentStopsTheRunAndResumeFinishesIt(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.cluster.Broken["infra-controller"] = world.Cause{
		Reason: v1alpha1.StopImageNotFound, Message: "Pod infra/infra-controller-x can't pull image example.com/infra:v2", Definite: true,
	}
	out, err := s.follow(t, s.engine("first"))
	if err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	run := s.cluster.Run(runName)
	if got := reason(run); got != "False/Stopped" {
		t.Errorf("Succeeded is %s, want False/Stopped", got)
	}
	if len(run.Status.Stops) == 0 || run.Status.Stops[0].Component != "infra" || run.Status.Stops[0].Reason != v1alpha1.StopImageNotFound {
		t.Errorf("stops are %+v, want one of component infra, ImageNotFound", run.Status.Stops)
	}
	again, err := s.engine("second").Tick(t.Context(), runName)
	if err != nil || !again.Stopped {
		t.Errorf("a tick without resume gave %+v, %v; want a run that still holds", again, err)
	}
	delete(s.cluster.Broken, "infra-controller")
	s.cluster.Resume(runName)
	if out, err = s.follow(t, s.engine("second")); err != nil || !out.Ended {
		t.Fatalf("resume: %+v, %v", out, err)
	}
	golden(t, "broken", strings.Join(s.log, "\n")+"\n")
}

// TestResumeRestartsWhatFailedBefore covers the Pod that sits in its back-off when the operator has repaired the cause.
func TestResumeRestartsWhatFailedBefore(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	pod := world.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "infra", Name: "infra-controller-x"}
	s.cluster.Have(thing(pod.APIVersion, pod.Kind, pod.Namespace, pod.Name, nil))
	s.cluster.Broken["infra-controller"] = world.Cause{
		Reason: v1alpha1.StopImageNotFound, Message: "can't pull", Definite: true, Object: pod, Made: start,
	}
	if out, err := s.follow(t, s.engine("first")); err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	for _, c := range s.cluster.Changes {
		if c == "delete "+pod.String() {
			t.Fatalf("the Pod was restarted before the operator asked to go on: %v", s.cluster.Changes)
		}
	}
	s.cluster.Resume(runName)
	if out, err := s.follow(t, s.engine("second")); err != nil || !out.Stopped {
		t.Fatalf("resume without a repair: %+v, %v; want it to stop again", out, err)
	}
	restarts := 0
	for _, c := range s.cluster.Changes {
		if c == "delete "+pod.String() {
			restarts++
		}
	}
	if restarts != 1 {
		t.Errorf("the Pod was restarted %d times, want once for one resume", restarts)
	}
}

func TestNothingMovingStopsTheRunAtTheStallLimit(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.cluster.Broken["core-controller"] = world.Cause{Reason: v1alpha1.StopNotReady, Message: "Pod core/x is not ready"}
	before := s.cluster.Clock.Now()
	out, err := s.follow(t, s.engine("first"))
	if err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	if took := s.cluster.Clock.Now().Sub(before); took < time.Minute || took > 75*time.Second {
		t.Errorf("stopped after %s, want about the stall limit of one minute", took)
	}
}

func TestUnrequestedMachineStopsTheRunAndPausesItsCluster(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	e := s.engine("first")
	for range 6 {
		if _, err := e.Tick(t.Context(), runName); err != nil {
			t.Fatal(err)
		}
	}
	f := fleet()
	f[0].Owners[0].Template["spec.version"] = "v1.37.0"
	f[0].Machines = append(f[0].Machines, world.Machine{Name: "m-new", UID: "u-new", Owner: f[0].Owners[0].Ref})
	s.cluster.Fleet = f
	out, err := s.follow(t, e)
	if err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	run := s.cluster.Run(runName)
	want := `KubeadmControlPlane default/fleet-1 of cluster default/fleet-1 made Machine m-new although nobody asked for it: spec.version from "v1.36.0" to "v1.37.0"`
	if len(run.Status.Stops) != 1 || run.Status.Stops[0].Message != want {
		t.Errorf("stops are %+v, want %q", run.Status.Stops, want)
	}
	if !s.cluster.Fleet[0].Paused {
		t.Error("the cluster is not paused")
	}
	if got := reason(run); got != "False/FenceViolated" {
		t.Errorf("Succeeded is %s, want False/FenceViolated", got)
	}
}

func TestIntentSteersTheRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		intent      v1alpha1.Intent
		wantEnded   bool
		wantStopped bool
	}{
		"pause holds between steps": {intent: v1alpha1.IntentPause, wantStopped: true},
		"abort ends between steps":  {intent: v1alpha1.IntentAbort, wantEnded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t)
			run := s.cluster.Run(runName)
			run.Spec.Intent = tc.intent
			s.cluster.Start(run)
			out, err := s.follow(t, s.engine("first"))
			if err != nil || out.Ended != tc.wantEnded || out.Stopped != tc.wantStopped {
				t.Errorf("got %+v, %v; want ended %t, stopped %t", out, err, tc.wantEnded, tc.wantStopped)
			}
			if len(s.cluster.Changes) > 0 {
				t.Errorf("changes were made: %v", s.cluster.Changes)
			}
		})
	}
}

func TestStepThatIsUndoneAgainAndAgainStopsTheRun(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	// The last step of core is never reached by the others' rollouts alone: keep the run open with a broken one.
	s.cluster.Broken["bootstrap-controller"] = world.Cause{Reason: v1alpha1.StopNotReady, Message: "slow"}
	run := s.cluster.Run(runName)
	run.Spec.StallLimit = metav1.Duration{Duration: time.Hour}
	s.cluster.Start(run)
	e := s.engine("first")
	for range 400 {
		out, err := e.Tick(t.Context(), runName)
		if err != nil {
			t.Fatal(err)
		}
		if out.Stopped {
			break
		}
		s.cluster.Clock.Step(out.After)
		if now := s.cluster.Run(runName); done(now, "record/core/v2") && done(now, "swap/core/v2") {
			s.cluster.Have(manifests("core", "v1")[1])
		}
	}
	stops := s.cluster.Run(runName).Status.Stops
	if len(stops) != 1 || stops[0].Reason != v1alpha1.StopContested || stops[0].Component != "core" {
		t.Errorf("stops are %+v, want Contested of component core", stops)
	}
}

func done(u *v1alpha1.Upgrade, id string) bool {
	for _, r := range u.Status.Steps {
		if r.ID == id {
			return r.State == v1alpha1.StepDone
		}
	}
	return false
}
