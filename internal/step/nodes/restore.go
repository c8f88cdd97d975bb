// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// PausedAnnotation makes Cluster API leave an object alone.
const PausedAnnotation = "cluster.x-k8s.io/paused"

// restore puts back what had another value during the roll. The old template stays: it is the way back.
type restore struct{ base }

// ID is stable: it names the pool and the template.
func (s *restore) ID() string { return s.id(stageRestore) }

// Summary is one line for people.
func (s *restore) Summary() string { return fmt.Sprintf("Put back the settings of %s", s.owner()) }

// Needs is the roll.
func (s *restore) Needs() []string { return []string{s.id(stageRoll)} }

// Progress is Done when no setting has its value of the roll.
func (s *restore) Progress(w *world.World) step.Progress {
	seen, ok := s.seen(w)
	if !ok {
		return unseen()
	}
	left := s.unrestored(seen)
	if len(left) == 0 {
		return step.Progress{State: step.Done, Detail: "The settings are as before"}
	}
	return step.Progress{State: step.Pending, Detail: phrase.Count(len(left), "setting") + " to put back", Mark: fmt.Sprint(len(left))}
}

// Apply puts settings back.
func (s *restore) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	seen, ok := s.seen(w)
	if !ok {
		return fmt.Errorf("apply %s: the pool was not observed", s.ID())
	}
	return s.putBack(ctx, seen, a)
}

func (s *restore) putBack(ctx context.Context, seen *world.PoolState, a step.Actuator) error {
	return write(ctx, a, s.unrestored(seen), before)
}

// Clean tells what a run that ends before its plan leaves behind: an owner that would go on replacing Machines with nobody
// watching, settings of the roll, and hooks. A Machine that Cluster API has marked already keeps its hook: taking it away
// would drain the Machine, and a mark can't be taken back. The next roll of the pool, to whichever image, lets it go.
func (s *restore) Clean(w *world.World) step.Progress {
	seen, ok := s.seen(w)
	if !ok {
		return unseen()
	}
	if seen.Owner == nil || !s.halfway(seen) && len(s.unrestored(seen)) == 0 && len(s.hooked(seen)) == 0 {
		return step.Progress{State: step.Done}
	}
	return step.Progress{State: step.Pending, Detail: "Leave " + s.owner().String() + " in order"}
}

// Sweep holds the owner first: as soon as hooks or settings change, its controller would take the next Machine.
func (s *restore) Sweep(ctx context.Context, w *world.World, a step.Actuator) error {
	seen, ok := s.seen(w)
	if !ok || seen.Owner == nil {
		return nil
	}
	if s.halfway(seen) {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, PausedAnnotation, v1alpha1.RollPausedValue)
		if err := a.Patch(ctx, s.owner(), patch); err != nil {
			return fmt.Errorf("pause %s: %w", s.owner(), err)
		}
	}
	if err := s.putBack(ctx, seen, a); err != nil {
		return err
	}
	var changes []step.Change
	for _, m := range s.hooked(seen) {
		patch, err := hookPatch(m, null)
		if err != nil {
			return err
		}
		changes = append(changes, step.Change{Ref: m.Ref, Patch: patch})
	}
	if err := a.PatchAll(ctx, changes); err != nil {
		return fmt.Errorf("let go of the Machines of %s: %w", s.owner(), err)
	}
	return nil
}

// halfway tells that the owner has the new template, still has old Machines, and goes on by itself.
func (s *restore) halfway(seen *world.PoolState) bool {
	if _, paused := seen.Owner.GetAnnotations()[PausedAnnotation]; paused || !s.pointed(seen.Owner) {
		return false
	}
	return slices.ContainsFunc(seen.Machines, s.old)
}

// hooked returns the Machines that stay and have the hook.
func (s *restore) hooked(seen *world.PoolState) []world.RolledMachine {
	var out []world.RolledMachine
	for _, m := range seen.Machines {
		if m.Deleting.IsZero() && slices.Contains(m.Hooks, hookName) {
			out = append(out, m)
		}
	}
	return out
}
