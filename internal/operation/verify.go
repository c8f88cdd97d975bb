// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// verifyLooks is how often a component that does not work is looked at before that is believed, and verifyPause the time
	// between: a Pod that has just moved to another node is no fault.
	verifyLooks = 4
	verifyPause = 3 * time.Second
)

// Verification is what was found of a management cluster when nothing was to be changed.
type Verification struct {
	// Run is the run that was completed last, nil if there is none: then there is nothing to compare components with.
	Run *v1alpha1.Upgrade
	// Components is how many of its components were looked at.
	Components int
	// Clusters and Machines is how large the fleet is.
	Clusters, Machines int
	// Findings are the results of all checks.
	Findings []v1alpha1.Finding
	// Note says what could not be compared, empty for nothing.
	Note string
}

// Verify looks whether every component is what the last completed run made of it, and works; and whether anything would
// replace Machines later, though nobody asks for it. It writes nothing; each MachineDeployment is scaled as a dry run.
func (s *Session) Verify(ctx context.Context) (*Verification, error) {
	past, err := s.store.Upgrades(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	out := &Verification{Run: plan.LastCompleted(past)}
	steps, err := s.lastSteps(ctx, out)
	if err != nil {
		return nil, err
	}
	w, faults, err := s.settle(ctx, steps)
	if err != nil {
		return nil, err
	}
	checks := check.ForVerify()
	w.Survey = s.observer.Survey(ctx, world.Ask{Topics: check.Topics(checks), Scale: true})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out.Findings = check.Run(checks, w, &check.Target{Undone: faults})
	out.Clusters = len(w.Clusters)
	for i := range w.Clusters {
		out.Machines += len(w.Clusters[i].Machines)
	}
	return out, nil
}

// lastSteps builds the steps of the last completed run's plan for all of its components, also those that did not move.
func (s *Session) lastSteps(ctx context.Context, v *Verification) ([]step.Step, error) {
	if v.Run == nil {
		v.Note = "no run of Capstan was completed here, so there is nothing to compare the components with"
		return nil, nil
	}
	p, err := s.store.Plan(ctx, v.Run.Spec.Plan)
	if errors.Is(err, store.ErrNotFound) {
		v.Note = "the plan of run " + v.Run.Name + " is lost, so there is nothing to compare the components with"
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read plan %s: %w", v.Run.Spec.Plan, err)
	}
	objects, components := platform.Objects{}, slices.Clone(p.Spec.Components)
	for i := range components {
		c := &components[i]
		data, err := s.store.Get(ctx, c.Artifact)
		if _, lost := errors.AsType[*problem.Error](err); lost {
			v.Note = "the manifests of " + c.Name + " are lost, so there is nothing to compare the components with"
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the manifests of %s: %w", c.Name, err)
		}
		if objects[c.Name], err = release.DecodeObjects(data); err != nil {
			return nil, fmt.Errorf("read the manifests of %s: %w", c.Name, err)
		}
		if c.Action == v1alpha1.ActionNone {
			c.Action = v1alpha1.ActionRepair
		}
	}
	v.Components = len(components)
	return platform.Build(components, objects)
}

// settle looks at all objects of the steps, and returns each step that is not where the run left it. What is wrong is
// looked at several times before it is believed.
func (s *Session) settle(ctx context.Context, steps []step.Step) (*world.World, []check.UndoneStep, error) {
	var wants []world.Want
	for _, st := range steps {
		if w, ok := st.(step.Watcher); ok {
			wants = append(wants, w.Want())
		}
	}
	for look := 1; ; look++ {
		w, err := s.observer.Observe(ctx, wants)
		if err != nil {
			return nil, nil, fmt.Errorf("observe: %w", err)
		}
		found := undone(steps, w)
		if len(found) == 0 || look == verifyLooks {
			return w, found, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-s.clock.After(verifyPause):
		}
	}
}

// undone returns the steps that are not done.
func undone(steps []step.Step, w *world.World) []check.UndoneStep {
	var out []check.UndoneStep
	for _, st := range steps {
		if p := st.Progress(w); p.State != step.Done {
			out = append(out, check.UndoneStep{Component: st.Component(), Step: st.ID(), Detail: p.Detail, Causes: p.Causes})
		}
	}
	return out
}
