// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// roll tells the owner of the new template, then lets go of one old Machine at a time.
type roll struct{ base }

// ID is stable: it names the pool and the template.
func (s *roll) ID() string { return s.id(stageRoll) }

// Summary is one line for people.
func (s *roll) Summary() string {
	return fmt.Sprintf("Roll %s to %s, %s", s.owner(), s.pool.NewTemplate.Name, words(s.pool.Strategy))
}

func words(s v1alpha1.RollStrategy) string {
	if s == v1alpha1.StrategyScaleIn {
		return "taking each old Machine away first"
	}
	return "each new Machine first"
}

// Needs is the preparation.
func (s *roll) Needs() []string { return []string{s.id(stagePrepare)} }

// Progress is Done when every Machine is of the new template, its node runs what the image holds, and the owner says that
// it has what it wants.
func (s *roll) Progress(w *world.World) step.Progress {
	seen, ok := s.seen(w)
	switch {
	case !ok:
		return unseen()
	case seen.Owner == nil:
		return s.gone()
	}
	v := s.view(seen)
	p := step.Progress{State: step.Waiting, Detail: v.detail(), Mark: v.mark(), Causes: v.causes()}
	switch {
	case !s.pointed(seen.Owner):
		p.State, p.Detail = step.Pending, s.owner().String()+" has "+s.templateName(seen.Owner)
	case v.finished():
		p.State, p.Causes = step.Done, nil
	case v.next() != nil:
		p.State = step.Pending
	}
	return p
}

// Apply tells the owner of its new template, or lets go of the Machine whose turn it is.
func (s *roll) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	seen, ok := s.seen(w)
	if !ok || seen.Owner == nil {
		return fmt.Errorf("apply %s: the pool was not observed", s.ID())
	}
	if !s.pointed(seen.Owner) {
		return s.point(ctx, a)
	}
	m := s.view(seen).next()
	if m == nil {
		return nil
	}
	patch, err := hookPatch(*m, null)
	if err != nil {
		return err
	}
	if err := a.Patch(ctx, m.Ref, patch); err != nil {
		return fmt.Errorf("let go of %s: %w", m.Ref, err)
	}
	return nil
}

// point gives the owner its new template, and the Kubernetes version with it: two changes would be two rolls.
func (s *roll) point(ctx context.Context, a step.Actuator) error {
	change := map[string]any{}
	put(change, strings.Split(s.pool.TemplateRef, "."), s.pool.NewTemplate.Name)
	if s.pool.VersionPath != "" && s.pool.ToVersion != "" {
		put(change, strings.Split(s.pool.VersionPath, "."), s.pool.ToVersion)
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("point %s to its template: %w", s.owner(), err)
	}
	if err := a.Patch(ctx, s.owner(), patch); err != nil {
		return fmt.Errorf("point %s to %s: %w", s.owner(), s.pool.NewTemplate.Name, err)
	}
	return nil
}

// slack is how many Machines may be missing while one is replaced.
func (s *roll) slack() int64 {
	if s.pool.Strategy == v1alpha1.StrategyScaleIn {
		return 1
	}
	return 0
}

// next returns the Machine that may go now, nil if none may. The gate is open when nothing else is on its way out, all
// that stay and have joined are well, the cluster answers, and enough of them are left without the one that goes. A
// Machine that is not well itself is no loss.
func (v *view) next() *world.RolledMachine {
	if len(v.held) == 0 || len(v.leaving) > 0 || v.seen.Silent != "" || v.scaled() || v.unlike() {
		return nil
	}
	i := max(slices.IndexFunc(v.held, func(m world.RolledMachine) bool { return v.ail(m) != "" }), 0)
	m := &v.held[i]
	slack := v.roll.slack()
	if v.ail(*m) != "" {
		slack = max(slack, 1)
	}
	if len(v.ailing) > 0 || int64(len(v.well)) < v.desired()-slack {
		return nil
	}
	return m
}
