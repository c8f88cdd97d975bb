// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/release"
)

// Draft is a plan that is nowhere stored yet, with what is needed to run it.
type Draft struct {
	// Spec is the plan.
	Spec *v1alpha1.PlanSpec
	// Bundle is the release that it was made from.
	Bundle *release.Bundle
	// Baseline is the fleet at the moment of the plan.
	Baseline fence.Baseline
	// Open is a run that has not ended, nil if there is none.
	Open *v1alpha1.Upgrade

	// newest is the name of the newest run when the plan was made.
	newest string
}

// Draft makes a plan. It writes nothing to the cluster.
func (s *Session) Draft(ctx context.Context, b *release.Bundle) (*Draft, error) {
	past, err := s.store.Upgrades(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	w, err := s.observer.Observe(ctx, plan.Wants(b))
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	w.Survey = s.observer.Survey(ctx, plan.Ask(b))
	spec, err := plan.Compute(plan.Input{Bundle: b, World: w, Past: past})
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return &Draft{Spec: spec, Bundle: b, Baseline: fence.Baseline{Clusters: w.Clusters}, Open: open(past), newest: newest(past)}, nil
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
