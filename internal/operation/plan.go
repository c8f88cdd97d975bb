// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diff"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/store"
)

// DraftOptions say how a plan is made. They are part of a saved plan.
type DraftOptions struct {
	// Installed is the release that is installed now, as the operator says; nil if they don't. It tells which settings are
	// the operator's own where no run of Capstan does.
	Installed *release.Bundle `json:"-"`
	// KeepSettings carries the operator's changes of live objects over into the release's manifests.
	KeepSettings bool `json:"keepSettings,omitempty"`
	// Diff asks for the difference of each object that the run would change.
	Diff bool `json:"-"`
	// NoMigrate leaves stored objects as they are.
	NoMigrate bool `json:"noMigrate,omitempty"`
	// AllowPrerelease tells that pre-releases are meant.
	AllowPrerelease bool `json:"allowPrerelease,omitempty"`
	// Knowledge are known risks that the operator brings along.
	Knowledge []v1alpha1.KnownRisk `json:"knowledge,omitempty"`
}

// Draft is a plan that is nowhere stored yet, with what is needed to run it.
type Draft struct {
	// Spec is the plan.
	Spec *v1alpha1.PlanSpec
	// Bundle is the release that it was made from, with the settings that are kept; nil of a plan for nodes.
	Bundle *release.Bundle
	// Templates are the manifests of the machine templates that a plan for nodes makes.
	Templates [][]byte
	// Baseline is the fleet at the moment of the plan.
	Baseline fence.Baseline
	// Open is a run that has not ended, nil if there is none.
	Open *v1alpha1.Upgrade
	// Diff is what the run would change, if that was asked for.
	Diff []diff.Entry
	// Own tells that Open is a run of this very plan, which was saved.
	Own bool
	// Noted is what moved since the plan was saved and has no meaning for it.
	Noted []string

	// newest is the name of the newest run when the plan was made.
	newest string
	// earlier and snapshot are what a saved plan needs besides.
	earlier  map[string]*settings.Earlier
	snapshot plan.Snapshot
	options  DraftOptions
}

// Draft makes a plan. It writes nothing to the cluster.
func (s *Session) Draft(ctx context.Context, b *release.Bundle, o DraftOptions) (*Draft, error) {
	in, err := s.gather(ctx, b, o)
	if err != nil {
		return nil, err
	}
	if in.Earlier, err = s.earlier(ctx, in, o.Installed); err != nil {
		return nil, err
	}
	if o.KeepSettings {
		if in, err = s.keep(ctx, in, o.Diff); err != nil {
			return nil, err
		}
	}
	d, err := drafted(in)
	if err != nil {
		return nil, err
	}
	if d.options = o; !o.Diff {
		return d, nil
	}
	d.Diff, err = s.differences(ctx, d.Spec, in)
	return d, err
}

// gather looks at all that a plan is made from, but for what settings are compared with.
func (s *Session) gather(ctx context.Context, b *release.Bundle, o DraftOptions) (plan.Input, error) {
	past, err := s.store.Upgrades(ctx)
	if err != nil {
		return plan.Input{}, fmt.Errorf("read the history: %w", err)
	}
	in := plan.Input{Bundle: b, Past: past, AllowPrerelease: o.AllowPrerelease, Knowledge: o.Knowledge, NoMigrate: o.NoMigrate}
	if in.World, err = s.observer.Inspect(ctx, plan.Wants(b, o.Diff), plan.Ask(b)); err != nil {
		return in, fmt.Errorf("observe: %w", err)
	}
	in.Last, err = s.last(ctx, past)
	return in, err
}

// drafted decides, now that everything is known.
func drafted(in plan.Input) (*Draft, error) {
	spec, err := plan.Compute(in)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return &Draft{
		Spec: spec, Bundle: in.Bundle, Baseline: fence.Baseline{Clusters: in.World.Clusters},
		Open: open(in.Past), newest: newest(in.Past),
		earlier: in.Earlier, snapshot: plan.Snap(in.Bundle, in.World, newest(in.Past)),
	}, nil
}

// keep carries the operator's changes over, and looks at the world again with what is wanted then.
func (s *Session) keep(ctx context.Context, in plan.Input, full bool) (plan.Input, error) {
	resets, err := plan.Resets(in)
	if err != nil {
		return in, err
	}
	b := *in.Bundle
	b.Components, in.Kept = nil, map[string][]v1alpha1.KeptSetting{}
	for _, r := range in.Bundle.Components {
		next, kept, err := settings.Keep(r, resets[r.Component.Name])
		if err != nil {
			return in, err
		}
		b.Components = append(b.Components, next)
		if len(kept) > 0 {
			in.Kept[r.Component.Name] = kept
		}
	}
	if len(in.Kept) == 0 {
		return in, nil
	}
	survey := in.World.Survey
	in.Bundle = &b
	if in.World, err = s.observer.Observe(ctx, plan.Wants(&b, full)); err != nil {
		return in, fmt.Errorf("observe: %w", err)
	}
	in.World.Survey = survey
	return in, nil
}

// last returns the plan of the run that was completed last, nil if there is none any more.
func (s *Session) last(ctx context.Context, past []v1alpha1.Upgrade) (*v1alpha1.PlanSpec, error) {
	run := plan.LastCompleted(past)
	if run == nil {
		return nil, nil
	}
	p, err := s.store.Plan(ctx, run.Spec.Plan)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the plan of run %s: %w", run.Name, err)
	}
	return &p.Spec, nil
}

// open returns the newest run that has not ended.
func open(runs []v1alpha1.Upgrade) *v1alpha1.Upgrade {
	for i := range runs {
		if runs[i].Status.FinishedAt == nil {
			return &runs[i]
		}
	}
	return nil
}
