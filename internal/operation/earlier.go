// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/store"
)

// earlier finds the manifests of the components as they were applied last: from the release that the operator names, or
// from what the last run of the component stored. Components of which neither is known are left out.
func (s *Session) earlier(ctx context.Context, in plan.Input, installed *release.Bundle) (map[string]*settings.Earlier, error) {
	out := map[string]*settings.Earlier{}
	plans := map[string]*v1alpha1.Plan{}
	matched := false
	for _, r := range in.Bundle.Components {
		name, from := r.Component.Name, plan.Installed(r.Component, in.World)
		if from == "" {
			continue
		}
		if old := counterpart(installed, r.Component); old != nil && old.Component.Version == from {
			matched = true
			out[name] = &settings.Earlier{
				Source:  fmt.Sprintf("release %s %s", installed.Release.Name, installed.Release.Spec.Version),
				Objects: settings.Only(old.Objects),
			}
			continue
		}
		e, err := s.applied(ctx, in.Past, plans, name, from)
		if err != nil {
			return nil, err
		}
		if e != nil {
			out[name] = e
		}
	}
	if installed != nil && !matched {
		return nil, problem.Usage("NotInstalled", "--installed", "No component of release %s %s is at the version that is installed here",
			installed.Release.Name, installed.Release.Spec.Version).WithRemedy("see what is installed with `capstan status`")
	}
	return out, nil
}

// counterpart returns the component of another release that is the same program.
func counterpart(b *release.Bundle, c v1alpha1.Component) *release.Rendered {
	if b == nil {
		return nil
	}
	for _, r := range b.Components {
		switch {
		case c.Provider != nil && r.Component.Provider != nil && *c.Provider == *r.Component.Provider:
			return r
		case c.Provider == nil && r.Component.Provider == nil && c.Name == r.Component.Name:
			return r
		}
	}
	return nil
}

// applied returns what the newest run that brought the component to its installed version applied, nil if there is no
// such run or its content is lost.
func (s *Session) applied(ctx context.Context, past []v1alpha1.Upgrade, plans map[string]*v1alpha1.Plan, component, version string) (*settings.Earlier, error) {
	for i := range past {
		run := &past[i]
		p, err := s.planOf(ctx, run, plans)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		c := slices.IndexFunc(p.Spec.Components, func(c v1alpha1.PlannedComponent) bool { return c.Name == component && c.To == version })
		if c < 0 || !reached(run, &p.Spec, component) {
			continue
		}
		objects, err := s.content(ctx, p.Spec.Components[c].Artifact)
		if err != nil || objects == nil {
			return nil, err
		}
		return &settings.Earlier{Source: "run " + run.Name, Objects: settings.Only(objects), Kept: p.Spec.Components[c].Kept}, nil
	}
	return nil, nil
}

// planOf returns the plan of a run, nil if it is lost.
func (s *Session) planOf(ctx context.Context, run *v1alpha1.Upgrade, known map[string]*v1alpha1.Plan) (*v1alpha1.Plan, error) {
	if p, ok := known[run.Spec.Plan]; ok {
		return p, nil
	}
	p, err := s.store.Plan(ctx, run.Spec.Plan)
	if errors.Is(err, store.ErrNotFound) {
		p, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the plan of run %s: %w", run.Name, err)
	}
	known[run.Spec.Plan] = p
	return p, nil
}

// content returns stored objects, nil if they are lost or damaged.
func (s *Session) content(ctx context.Context, digest string) ([]*unstructured.Unstructured, error) {
	data, err := s.store.Get(ctx, digest)
	if _, lost := errors.AsType[*problem.Error](err); lost {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	objects, err := release.DecodeObjects(data)
	if err != nil {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	return objects, nil
}

// reached tells whether a run saw a component at its target.
func reached(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec, component string) bool {
	if plan.Completed([]v1alpha1.Upgrade{*run}) != "" {
		return true
	}
	moved := false
	for _, st := range spec.Steps {
		if st.Component != component {
			continue
		}
		moved = true
		done := slices.ContainsFunc(run.Status.Steps, func(r v1alpha1.StepRecord) bool { return r.ID == st.ID && r.State == v1alpha1.StepDone })
		if !done {
			return false
		}
	}
	return moved
}
