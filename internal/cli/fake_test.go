// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

func now() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// fake is a management cluster that answers what it was told, and remembers what was written to it.
type fake struct {
	spec      *v1alpha1.PlanSpec
	open      *v1alpha1.Upgrade
	continues bool
	runs      []v1alpha1.Upgrade
	// loadErr, draftErr, startErr, followErr are returned where they are set.
	loadErr, draftErr, startErr, followErr, reopenErr error
	// own tells that the open run is of the plan that is reopened.
	own bool
	// drafted is how the last plan was asked for.
	drafted operation.DraftOptions
	// end is what Follow makes of the run.
	end func(run *v1alpha1.Upgrade)
	// interrupt is called by Follow before it returns followErr.
	interrupt func()

	// moving is what the fleet is doing, verified what a verification finds.
	moving   []string
	verified *operation.Verification

	writes []string
	closed bool
}

func (f *fake) Load(_ context.Context, ref string) (*release.Bundle, error) {
	if f.loadErr != nil {
		return nil, f.loadErr
	}
	return &release.Bundle{Release: &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: ref}}}, nil
}

func (f *fake) Reopen(_ context.Context, p *operation.PlanFile) (*operation.Draft, error) {
	if f.reopenErr != nil {
		return nil, f.reopenErr
	}
	return &operation.Draft{Spec: &p.Plan, Open: f.open, Own: f.own}, nil
}

func (f *fake) Draft(_ context.Context, b *release.Bundle, o operation.DraftOptions) (*operation.Draft, error) {
	f.drafted = o
	if f.draftErr != nil {
		return nil, f.draftErr
	}
	return &operation.Draft{Spec: f.spec, Bundle: b, Open: f.open}, nil
}

func (f *fake) Settle(_ context.Context, _ time.Duration, tell func([]string)) ([]string, error) {
	if len(f.moving) > 0 {
		tell(f.moving)
	}
	return f.moving, nil
}

func (f *fake) Verify(context.Context) (*operation.Verification, error) { return f.verified, nil }

func (f *fake) Continues(context.Context, *operation.Draft) (bool, error) { return f.continues, nil }

func (f *fake) DraftRoll(_ context.Context, image string, ask world.AskNodes, _ operation.RollOptions) (*operation.NodeDraft, error) {
	return &operation.NodeDraft{Ask: ask, Roll: &operation.Roll{
		Draft: &operation.Draft{Spec: f.spec, Open: f.open, Own: f.own}, Image: &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: image}},
	}}, f.draftErr
}

func (f *fake) DraftNodes(_ context.Context, ask world.AskNodes) (*operation.NodeDraft, error) {
	if f.draftErr != nil {
		return nil, f.draftErr
	}
	return &operation.NodeDraft{Ask: ask, Clusters: []string{"default/a"}, Findings: f.spec.Findings}, nil
}

func (f *fake) Start(_ context.Context, d *operation.Draft, o operation.StartOptions) (*v1alpha1.Upgrade, error) {
	if err := operation.Admit(d, o); err != nil {
		return nil, err
	}
	f.writes = append(f.writes, "start")
	if f.startErr != nil {
		return nil, f.startErr
	}
	u := run()
	u.Spec.Accepted, u.Spec.StallLimit.Duration = o.Accepted, o.StallLimit
	f.open = u
	return u, nil
}

func (f *fake) Resume(_ context.Context, name string) (*v1alpha1.Upgrade, error) {
	if f.open == nil {
		return nil, problem.Blocked("NoOpenRun", "No run is under way or stopped")
	}
	f.writes = append(f.writes, "resume "+name)
	return f.open, nil
}

func (f *fake) Steer(_ context.Context, name string, intent v1alpha1.Intent) (*v1alpha1.Upgrade, error) {
	f.writes = append(f.writes, strings.TrimSpace(string(intent)+" "+name))
	return f.open, nil
}

func (f *fake) Follow(_ context.Context, _ string, sink event.Sink) (*v1alpha1.Upgrade, error) {
	sink(event.StepDone{At: now(), Step: "swap/a/v2", Component: "a", Summary: "Swap a to v2", Took: time.Second, Index: 1, Total: 1})
	if f.interrupt != nil {
		f.interrupt()
	}
	if f.followErr != nil {
		return f.open, f.followErr
	}
	f.end(f.open)
	return f.open, nil
}

func (f *fake) Runs(context.Context) ([]v1alpha1.Upgrade, error) { return f.runs, nil }

func (f *fake) Plan(context.Context, *v1alpha1.Upgrade) (*v1alpha1.Plan, error) {
	return &v1alpha1.Plan{Spec: *f.spec}, nil
}

func (f *fake) Status(context.Context) (*operation.Status, error) {
	return &operation.Status{At: now(), World: &world.World{}, Open: f.open}, nil
}

func (f *fake) Close(ctx context.Context) error {
	f.closed = true
	if ctx.Err() != nil {
		return errors.New("closed with a context that has ended")
	}
	return nil
}

func spec(findings ...v1alpha1.Finding) *v1alpha1.PlanSpec {
	return &v1alpha1.PlanSpec{
		Kind: v1alpha1.PlanPlatform, Release: v1alpha1.ReleaseReference{Name: "rel", Version: "v2.0.0", Digest: "sha256:aa"},
		Components: []v1alpha1.PlannedComponent{{
			Name: "a", Type: v1alpha1.ComponentManifest, From: "v1.0.0", To: "v2.0.0", Action: v1alpha1.ActionUpgrade, Strategy: v1alpha1.StrategyRolling,
		}},
		Steps:    []v1alpha1.PlannedStep{{ID: "swap/a/v2", Summary: "Swap a to v2", Component: "a"}},
		Findings: findings, Digest: "sha256:bb",
	}
}

// nothing is a plan without steps.
func nothing() *v1alpha1.PlanSpec {
	s := spec()
	s.Steps, s.Components[0].Action, s.Components[0].From = nil, v1alpha1.ActionNone, "v2.0.0"
	return s
}

func blocking() v1alpha1.Finding {
	return v1alpha1.Finding{ID: "CAP-X", Verdict: v1alpha1.VerdictBlock, Summary: "Cluster a/b is too old", Remedy: "upgrade it", Waivable: true}
}

func run() *v1alpha1.Upgrade {
	return &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Name: "to-v2", CreationTimestamp: metav1.NewTime(now())},
		Spec:       v1alpha1.UpgradeSpec{Plan: "plan-bb", From: "v1.0.0", To: "v2.0.0", Intent: v1alpha1.IntentRun},
	}
}

// ends makes a run end or hold with these conditions.
func ends(finished bool, succeeded metav1.ConditionStatus, reason string, stalled bool, stops ...v1alpha1.Stop) func(*v1alpha1.Upgrade) {
	return func(u *v1alpha1.Upgrade) {
		u.Status.Stops = stops
		if finished {
			u.Status.FinishedAt = new(metav1.NewTime(now()))
		}
		stall := metav1.ConditionFalse
		if stalled {
			stall = metav1.ConditionTrue
		}
		u.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionSucceeded, Status: succeeded, Reason: reason},
			{Type: v1alpha1.ConditionStalled, Status: stall, Reason: reason},
		}
	}
}

func completes() func(*v1alpha1.Upgrade) {
	return ends(true, metav1.ConditionTrue, v1alpha1.ReasonCompleted, false)
}

func imageStop() v1alpha1.Stop {
	return v1alpha1.Stop{Reason: v1alpha1.StopImageNotFound, Component: "a", Step: "swap/a/v2", Message: "Pod x/y: image z does not exist", Remedy: "push z"}
}

// said is what a command line came to.
type said struct {
	exit     problem.Exit
	out, err string
}

// call runs a command line against the fake.
func call(t *testing.T, f *fake, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if f.interrupt != nil {
		f.interrupt = cancel
	}
	var out, errs bytes.Buffer
	a := &app{streams: Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, clock: clocktesting.NewFakeClock(now())}
	a.connect = func(*global) (session, error) { return f, nil }
	exit := a.run(ctx, args)
	return said{exit: exit, out: out.String(), err: errs.String()}
}
