// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
)

// StartOptions are what the operator decides when a run starts.
type StartOptions struct {
	// By is who starts it.
	By string
	// Accepted are findings that are accepted by name, each with a reason.
	Accepted []v1alpha1.AcceptedFinding
	// StallLimit is how long nothing may move before the run stops.
	StallLimit time.Duration
}

// Admit refuses a plan that must not start: something blocks, or another run is under way. It writes nothing.
func Admit(d *Draft, o StartOptions) error {
	if err := known(d.Spec.Findings, o.Accepted); err != nil {
		return err
	}
	if blocking := check.Blocking(d.Spec.Findings, o.Accepted); len(blocking) > 0 {
		first := blocking[0]
		message := first.Summary
		if more := len(blocking) - 1; more > 0 {
			message += fmt.Sprintf(" (and %d more)", more)
		}
		return problem.Blocked(first.ID, "%s", message).WithRemedy("%s", first.Remedy).WithObject(about(first, d.Spec))
	}
	if d.Open != nil && kindOf(d.Open.Spec.Kind) != kindOf(d.Spec.Kind) {
		return problem.Blocked("RunUnderWay", "Run %s to %s, of another kind, has not ended", d.Open.Name, d.Open.Spec.To).
			WithRemedy("go on with it by `capstan resume`, or end it by `capstan abort`, which leaves everything in order")
	}
	if d.Open != nil && moving(d.Open) {
		return problem.Blocked("RunUnderWay", "Run %s to %s has not ended", d.Open.Name, d.Open.Spec.To).
			WithRemedy("go on with it by `capstan resume`, or end it by `capstan abort`")
	}
	return nil
}

// kindOf is the kind of a plan; those of before there were two have none.
func kindOf(k v1alpha1.PlanKind) v1alpha1.PlanKind {
	return cmp.Or(k, v1alpha1.PlanPlatform)
}

// about is what a finding is about: its first object, or else the release.
func about(f v1alpha1.Finding, spec *v1alpha1.PlanSpec) string {
	if len(f.Objects) > 0 {
		return world.Ref(f.Objects[0]).String()
	}
	return "Release " + spec.Release.Name
}

// known refuses accepted findings that were not found or can't be accepted: a typing error must not look like consent.
func known(findings []v1alpha1.Finding, accepted []v1alpha1.AcceptedFinding) error {
	for _, a := range accepted {
		i := slices.IndexFunc(findings, func(f v1alpha1.Finding) bool { return f.ID == a.ID })
		switch {
		case strings.TrimSpace(a.Reason) == "":
			return problem.Usage("AcceptWithoutReason", "--accept", "%s is accepted without a reason", a.ID).WithRemedy("--accept %s='why it is safe here'", a.ID)
		case i < 0:
			return problem.Usage("AcceptUnknown", "--accept", "No finding %s was made", a.ID).WithRemedy("see the findings with `capstan plan`")
		case !findings[i].Waivable:
			return problem.Blocked("AcceptRefused", "%s can't be accepted: %s", a.ID, findings[i].Summary).WithRemedy("%s", findings[i].Remedy)
		}
	}
	return nil
}

// moving tells that a run is neither ended nor stopped by a fault. A stopped one may be superseded: its cause may lie in
// the release itself.
func moving(run *v1alpha1.Upgrade) bool {
	return !apimeta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionStalled)
}

// Start stores the plan with everything it needs and the run itself. The run begins with the first Follow. It takes the
// lease first, so that of two starts at once one is refused.
func (s *Session) Start(ctx context.Context, d *Draft, o StartOptions) (*v1alpha1.Upgrade, error) {
	if err := Admit(d, o); err != nil {
		return nil, err
	}
	if err := s.store.Install(ctx); err != nil {
		return nil, fmt.Errorf("install Capstan's kinds: %w", err)
	}
	if err := s.lease.Acquire(ctx); err != nil {
		return nil, err
	}
	if err := s.confirmDraft(ctx, d); err != nil {
		return nil, err
	}
	fenceDigest, err := s.putArtifacts(ctx, d)
	if err != nil {
		return nil, err
	}
	name := store.PlanName(d.Spec.Digest)
	if _, err := s.store.CreatePlan(ctx, &v1alpha1.Plan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *d.Spec}); err != nil {
		return nil, fmt.Errorf("store the plan: %w", err)
	}
	if err := s.supersede(ctx, d.Open, name); err != nil {
		return nil, err
	}
	run, err := s.store.CreateUpgrade(ctx, &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Name: s.runName(d.Spec, d.newest)},
		Spec: v1alpha1.UpgradeSpec{
			Kind: d.Spec.Kind, Plan: name, From: from(d.Spec), To: d.Spec.Release.Version, Machines: d.Spec.Forecast.MachinesReplaced, Intent: v1alpha1.IntentRun,
			RequestedBy: o.By, Accepted: o.Accepted, Fence: fenceDigest, StallLimit: metav1.Duration{Duration: o.StallLimit},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("store the run: %w", err)
	}
	return run, nil
}

// confirmDraft looks again once nobody else can start a run: a person may have thought about the plan for an hour. Another
// run since then makes it void; the fence's baseline is the fleet as it is now, as nothing before it is the run's doing.
func (s *Session) confirmDraft(ctx context.Context, d *Draft) error {
	runs, err := s.store.Upgrades(ctx)
	if err != nil {
		return fmt.Errorf("read the runs: %w", err)
	}
	if err := stillAsDrafted(d, runs); err != nil {
		return err
	}
	w, err := s.observer.Observe(ctx, nil)
	if err != nil {
		return fmt.Errorf("observe the fleet: %w", err)
	}
	d.Baseline = fence.Outside(w.Clusters, d.Baseline.Planned)
	return nil
}

// stillAsDrafted refuses a plan that was made before another run: two runs would be open at once, or the plan is for what
// is no more.
func stillAsDrafted(d *Draft, runs []v1alpha1.Upgrade) error {
	now := open(runs)
	same := newest(runs) == d.newest && (now == nil) == (d.Open == nil) &&
		(now == nil || now.Name == d.Open.Name && now.ResourceVersion == d.Open.ResourceVersion)
	if same {
		return nil
	}
	return problem.Blocked("PlanOutdated", "Another run was started or went on since this plan was made").
		WithRemedy("see it with `capstan status`, then plan again")
}

// newest returns the name of the newest run, or "".
func newest(runs []v1alpha1.Upgrade) string {
	if len(runs) == 0 {
		return ""
	}
	return runs[0].Name
}

// putArtifacts stores the rendered components and the fence's baseline: another process must be able to go on.
func (s *Session) putArtifacts(ctx context.Context, d *Draft) (string, error) {
	var components []*release.Rendered
	if d.Bundle != nil {
		components = d.Bundle.Components
	}
	err := each(len(components), func(i int) error {
		c := components[i]
		data, err := release.Encode(c.Objects)
		if err != nil {
			return fmt.Errorf("encode component %s: %w", c.Component.Name, err)
		}
		if _, err := s.store.Put(ctx, data); err != nil {
			return fmt.Errorf("store component %s: %w", c.Component.Name, err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	err = each(len(d.Templates), func(i int) error {
		if _, err := s.store.Put(ctx, d.Templates[i]); err != nil {
			return fmt.Errorf("store a machine template: %w", err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	data, err := d.Baseline.Encode()
	if err != nil {
		return "", err
	}
	digest, err := s.store.Put(ctx, data)
	if err != nil {
		return "", fmt.Errorf("store the fence's baseline: %w", err)
	}
	return digest, nil
}

// supersede ends a stopped run in favour of a new one.
func (s *Session) supersede(ctx context.Context, old *v1alpha1.Upgrade, by string) error {
	if old == nil {
		return nil
	}
	now := metav1.NewTime(s.clock.Now())
	old.Status.FinishedAt = &now
	apimeta.SetStatusCondition(&old.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSuperseded,
		Message: "Plan " + by + " goes on from where this run stopped", LastTransitionTime: now,
	})
	if err := s.store.UpdateStatus(ctx, old); err != nil {
		return fmt.Errorf("end run %s: %w", old.Name, err)
	}
	return nil
}

// runName is unique enough for people and sorts by time. A run in the same second as the newest one gets a number.
func (s *Session) runName(spec *v1alpha1.PlanSpec, newest string) string {
	version := strings.NewReplacer("+", "-", "_", "-").Replace(strings.ToLower(spec.Release.Version))
	name := fmt.Sprintf("to-%s-%s", version, s.clock.Now().UTC().Format("20060102-150405"))
	if newest == name {
		return name + "-2"
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(newest, name+"-")); err == nil && n > 1 {
		return fmt.Sprintf("%s-%d", name, n+1)
	}
	return name
}

// from describes the platform as it was: the last release, or else the versions of what moves.
func from(spec *v1alpha1.PlanSpec) string {
	if spec.Base.PlatformVersion != "" {
		return spec.Base.PlatformVersion
	}
	var versions []string
	for _, c := range spec.Components {
		if c.Provider != nil && c.From != "" && !slices.Contains(versions, c.From) {
			versions = append(versions, c.From)
		}
	}
	return strings.Join(versions, ", ")
}

// Resume tells a run that stopped, was paused or lost its process to go on. It takes the open run if no name is given,
// and refuses when there is nothing to resume. What the run waited for before counts no more: whoever resumes has just
// looked at it. The lease is taken first, so that a run which a live process drives is left alone.
func (s *Session) Resume(ctx context.Context, name string) (*v1alpha1.Upgrade, error) {
	run, err := s.pick(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.lease.Acquire(ctx); err != nil {
		return nil, err
	}
	return s.store.ChangeSpec(ctx, run.Name, func(spec *v1alpha1.UpgradeSpec) error {
		spec.Intent = v1alpha1.IntentRun
		spec.Resumes = max(spec.Resumes, run.Status.ObservedResumes) + 1
		return nil
	})
}

// Steer changes what is wanted of a run.
func (s *Session) Steer(ctx context.Context, name string, intent v1alpha1.Intent) (*v1alpha1.Upgrade, error) {
	run, err := s.pick(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.store.ChangeSpec(ctx, run.Name, func(spec *v1alpha1.UpgradeSpec) error {
		spec.Intent = intent
		return nil
	})
}

// pick returns the run with the name, or the one that has not ended.
func (s *Session) pick(ctx context.Context, name string) (*v1alpha1.Upgrade, error) {
	runs, err := s.store.Upgrades(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the runs: %w", err)
	}
	if name == "" {
		if run := open(runs); run != nil {
			return run, nil
		}
		return nil, problem.Blocked("NoOpenRun", "No run is under way or stopped").WithRemedy("see ended runs with `capstan history`")
	}
	i := slices.IndexFunc(runs, func(u v1alpha1.Upgrade) bool { return u.Name == name })
	switch {
	case i < 0:
		return nil, problem.Usage("NoSuchRun", "", "There is no run %q", name).WithRemedy("see the runs with `capstan history`")
	case runs[i].Status.FinishedAt != nil:
		return nil, problem.Blocked("RunEnded", "Run %s has ended", name).WithRemedy("start another with `capstan upgrade`")
	}
	return &runs[i], nil
}
