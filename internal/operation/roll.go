// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/roll"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
)

// RollOptions are what a person says about a roll besides which clusters are meant.
type RollOptions struct {
	// Strategy is auto, surge or scale-in.
	Strategy string
	// Pools are the names of the owners to roll, in this order; none means all.
	Pools []string
	// Together is how many clusters are rolled at once.
	Together int
}

// DraftRoll plans a roll to an image: the name of a NodeImage in the cluster, or a file. It writes nothing; changes are
// tried as dry runs. An open run to the very same image is found before anything is asked: a pool in the midst of a roll
// is not fit for another one.
func (s *Session) DraftRoll(ctx context.Context, ref string, ask world.AskNodes, o RollOptions) (*NodeDraft, error) {
	image, err := s.Image(ctx, ref)
	if err != nil {
		return nil, err
	}
	past, err := s.store.Upgrades(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	earlier, err := s.openRoll(ctx, past)
	if err != nil {
		return nil, err
	}
	same, err := plan.SameImage(earlier, image)
	if err != nil {
		return nil, err
	}
	if same {
		return &NodeDraft{Ask: ask, Roll: &Roll{Image: image, Draft: &Draft{Spec: earlier, Open: open(past), Own: true, newest: newest(past)}}}, nil
	}
	in, err := s.gatherRoll(ctx, image, ask, o)
	if err != nil {
		return nil, err
	}
	d, err := draftNodes(ask, in.checks, in.world, in.target)
	if err != nil {
		return nil, err
	}
	pools, err := carryOver(in.target.Roll, earlier, image)
	if err != nil {
		return nil, err
	}
	spec, err := plan.ComputeNodes(plan.NodesInput{
		Image: image, Pools: pools, Findings: d.Findings, World: in.world, Past: past, Together: o.Together,
	})
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	draft := &Draft{Spec: spec, Open: open(past), newest: newest(past), Baseline: fence.Outside(in.world.Clusters, clustersOf(pools))}
	for _, digest := range slices.Sorted(maps.Keys(in.target.Roll.Templates)) {
		draft.Templates = append(draft.Templates, in.target.Roll.Templates[digest])
	}
	d.Roll = &Roll{Draft: draft, Image: image}
	return d, nil
}

// rollInput is what a roll is planned from.
type rollInput struct {
	world  *world.World
	checks []check.Check
	target check.NodeTarget
}

// gatherRoll looks at all that a roll depends on, and decides how each pool is rolled.
func (s *Session) gatherRoll(ctx context.Context, image *v1alpha1.NodeImage, ask world.AskNodes, o RollOptions) (*rollInput, error) {
	fields, err := roll.BuiltIn()
	if err != nil {
		return nil, fmt.Errorf("read the field maps: %w", err)
	}
	in := &rollInput{checks: check.For(check.Nodes)}
	if in.world, err = s.observer.Observe(ctx, nil); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	topics := append(check.Topics(in.checks), world.TopicPools, world.TopicImage)
	in.world.Survey = s.observer.Survey(ctx, world.Ask{
		Topics: topics, Nodes: &ask, Image: &world.AskImage{URL: image.Spec.URL, Checksum: image.Spec.Checksum},
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	in.target = check.NodeTarget{Image: image, Roll: &roll.Result{}}
	if pools := in.world.Survey.Pools; pools != nil {
		in.target.Roll, err = roll.Plan(pools.Clusters, image, roll.Options{Strategy: o.Strategy, Pools: o.Pools, Version: ask.Version, Maps: fields})
	}
	return in, err
}

// openRoll returns the plan of a roll that has not ended, nil if there is none.
func (s *Session) openRoll(ctx context.Context, past []v1alpha1.Upgrade) (*v1alpha1.PlanSpec, error) {
	run := open(past)
	if run == nil || run.Spec.Kind != v1alpha1.PlanNodes {
		return nil, nil
	}
	p, err := s.store.Plan(ctx, run.Spec.Plan)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problem.Blocked("PlanLost", "The plan of run %s, which has not ended, is gone", run.Name).WithRemedy("capstan abort %s", run.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the plan of run %s: %w", run.Name, err)
	}
	return &p.Spec, nil
}

// carryOver takes over from a roll that stopped: what it set is not how things were, so the settings from before it are
// those that are put back. A pool of it that has the template already goes on as it was planned, with what the image is
// said to hold now, before all others of its cluster. One that is left out would keep its settings for ever, which is
// refused.
func carryOver(now *roll.Result, earlier *v1alpha1.PlanSpec, image *v1alpha1.NodeImage) ([]v1alpha1.PlannedPool, error) {
	out := slices.Clone(now.Pools)
	if earlier == nil {
		return out, nil
	}
	var first []v1alpha1.PlannedPool
	for _, old := range earlier.Pools {
		i := slices.IndexFunc(out, func(p v1alpha1.PlannedPool) bool { return p.Owner == old.Owner })
		if i < 0 && slices.ContainsFunc(now.UpToDate, world.Ref(old.Owner).Same) {
			old.Expect = image.Spec.Contents
			first = append(first, old)
			continue
		}
		if i < 0 {
			return nil, problem.Blocked("RunUnderWay", "%s is in the roll to %s, which has not ended, and not in this one", world.Ref(old.Owner), earlier.Release.Name).
				WithObject(world.Ref(old.Owner).String()).WithRemedy("end that run by `capstan abort`, or choose the same pools")
		}
		out[i].Settings = inherited(out[i].Settings, old.Settings)
	}
	for _, f := range first {
		for i := range out {
			if out[i].Cluster == f.Cluster {
				out[i].Needs = append(slices.Clone(out[i].Needs), nodes.Key(f.Owner))
			}
		}
	}
	return append(first, out...), nil
}

// inherited gives settings that an earlier roll has made already their value from before it, and adds those that only it
// made.
func inherited(now, then []v1alpha1.RollSetting) []v1alpha1.RollSetting {
	out := slices.Clone(now)
	for _, old := range then {
		i := slices.IndexFunc(out, func(s v1alpha1.RollSetting) bool { return s.Object == old.Object && slices.Equal(s.Path, old.Path) })
		switch {
		case i < 0:
			out = append(out, old)
		case out[i].Before == old.During:
			out[i].Before = old.Before
		}
	}
	return out
}

func clustersOf(pools []v1alpha1.PlannedPool) []string {
	var out []string
	for i := range pools {
		if c := pools[i].Cluster; !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}
