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
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
)

// Status is what there is to know about a management cluster and its runs.
type Status struct {
	// At is when it was put together.
	At time.Time
	// World is the management cluster and its fleet, nil if it could not be observed.
	World *world.World
	// WorldError says why it could not. A run can be looked at all the same: that is when it is needed most.
	WorldError error
	// Nodes are what nodes of workload clusters come from and wait for; nil if the world could not be observed.
	Nodes *world.Survey
	// PlatformVersion is the release that was last completed, empty if none was.
	PlatformVersion string
	// Open is the run that has not ended, nil if there is none.
	Open *v1alpha1.Upgrade
	// Plan is the plan of Open, nil if there is none or it is lost.
	Plan *v1alpha1.Plan
	// Last is the newest run that has ended, nil if there is none.
	Last *v1alpha1.Upgrade
	// Driver is the process that holds the lease, empty if nobody does or the process is known to be dead.
	Driver string
	// DriverRenewed is when it last said that it lives, by its own clock.
	DriverRenewed time.Time
}

// Status looks at the runs, at who drives them, and at the world. It writes nothing.
func (s *Session) Status(ctx context.Context) (*Status, error) {
	runs, err := s.store.Upgrades(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the runs: %w", err)
	}
	out := &Status{At: s.clock.Now(), PlatformVersion: plan.Completed(runs), Open: open(runs)}
	if i := slices.IndexFunc(runs, func(u v1alpha1.Upgrade) bool { return u.Status.FinishedAt != nil }); i >= 0 {
		out.Last = &runs[i]
	}
	if out.Open != nil {
		if err := s.statusOfOpen(ctx, out); err != nil {
			return nil, err
		}
	}
	w, err := s.observer.Observe(ctx, nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out.World, out.WorldError = w, err
	if err == nil {
		out.Nodes = s.nodes(ctx)
	}
	return out, ctx.Err()
}

// nodesAge is how old a picture of the nodes may be that a watch shows again: it is costly, and nodes are slow.
const nodesAge = 5 * time.Second

// nodes looks at the workload clusters' nodes and pauses, unless that was done a moment ago.
func (s *Session) nodes(ctx context.Context) *world.Survey {
	if now := s.clock.Now(); s.surveyed == nil || now.Sub(s.surveyedAt) >= nodesAge {
		s.surveyed, s.surveyedAt = s.observer.Survey(ctx, world.Ask{Topics: []world.Topic{world.TopicNodes, world.TopicPauses}}), now
	}
	return s.surveyed
}

func (s *Session) statusOfOpen(ctx context.Context, out *Status) error {
	p, err := s.store.Plan(ctx, out.Open.Spec.Plan)
	switch {
	case err == nil:
		out.Plan = p
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("read the plan of run %s: %w", out.Open.Name, err)
	}
	h, err := s.lease.Holder(ctx)
	if err != nil {
		return fmt.Errorf("see who drives the run: %w", err)
	}
	if h.Text != "" && !h.Dead {
		out.Driver, out.DriverRenewed = h.Who(), h.Renewed
	}
	return nil
}

// Continues tells whether upgrading to the release of d means going on with its open run instead of planning anew: the
// run's plan is for that very release, and going on can help. After an unrequested change of the fleet, and after a change
// that the API server refuses, it can't: both are judged against what the old plan holds.
func (s *Session) Continues(ctx context.Context, d *Draft) (bool, error) {
	if d.Open == nil {
		return false, nil
	}
	p, err := s.store.Plan(ctx, d.Open.Spec.Plan)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the plan of run %s: %w", d.Open.Name, err)
	}
	return continues(p, d), nil
}

func continues(p *v1alpha1.Plan, d *Draft) bool {
	if p.Spec.Release.Digest != d.Spec.Release.Digest {
		return false
	}
	return moving(d.Open) || !slices.ContainsFunc(d.Open.Status.Stops, func(st v1alpha1.Stop) bool {
		return st.Reason == v1alpha1.StopFenceViolated || st.Reason == v1alpha1.StopRejected
	})
}
