// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// prepare makes the new template, sets what has another value during the roll, and closes the gate: every old Machine
// gets the hook before the owner learns of the new template.
type prepare struct{ base }

// ID is stable: it names the pool and the template.
func (s *prepare) ID() string { return s.id(stagePrepare) }

// Summary is one line for people.
func (s *prepare) Summary() string {
	return fmt.Sprintf("Prepare %s for %s", s.owner(), s.pool.NewTemplate.Name)
}

// Needs are the last steps of the pools that come before this one.
func (s *prepare) Needs() []string { return slices.Clone(s.needs) }

// Progress is Done when all is in place, and for good once no old Machine is left. An old Machine that stays is held at any
// time: one that was let go is on its way out.
func (s *prepare) Progress(w *world.World) step.Progress {
	seen, ok := s.seen(w)
	switch {
	case !ok:
		return unseen()
	case seen.Owner == nil:
		return s.gone()
	case s.pointed(seen.Owner) && !slices.ContainsFunc(seen.Machines, s.old):
		return step.Progress{State: step.Done, Detail: s.pool.NewTemplate.Name + " is in use"}
	}
	made, unset, open := s.made(seen), s.unset(seen), s.unhooked(seen)
	if made && len(unset) == 0 && len(open) == 0 {
		return step.Progress{State: step.Done, Detail: s.pool.NewTemplate.Name + " is there, and every old Machine waits for its turn"}
	}
	return step.Progress{
		State: step.Pending, Mark: fmt.Sprintf("%t %d %d", made, len(unset), len(open)),
		Detail: fmt.Sprintf("%s and %s of %s to prepare", phrase.Count(len(open), "Machine"), phrase.Count(len(unset), "setting"), s.owner()),
	}
}

// Apply makes what is missing. Hooks come before settings: one of these may let a paused owner go on.
func (s *prepare) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	seen, ok := s.seen(w)
	if !ok {
		return fmt.Errorf("apply %s: the pool was not observed", s.ID())
	}
	if !s.made(seen) {
		if err := a.Apply(ctx, s.template); err != nil {
			return fmt.Errorf("make %s: %w", world.RefOf(s.template), err)
		}
	}
	var changes []step.Change
	for _, m := range s.unhooked(seen) {
		patch, err := hookPatch(m, `""`)
		if err != nil {
			return err
		}
		changes = append(changes, step.Change{Ref: m.Ref, Patch: patch})
	}
	if err := a.PatchAll(ctx, changes); err != nil {
		return fmt.Errorf("hold the Machines of %s: %w", s.owner(), err)
	}
	return write(ctx, a, s.unset(seen), during)
}

// made tells whether the new template is there as it should be.
func (s *prepare) made(seen *world.PoolState) bool {
	return seen.Template != nil && within(s.template.Object["spec"], seen.Template.Object["spec"])
}

// unhooked returns old Machines that nothing holds. One that is on its way out already is held by nobody: it was not the
// roll that asked for it.
func (b *base) unhooked(seen *world.PoolState) []world.RolledMachine {
	var out []world.RolledMachine
	for _, m := range seen.Machines {
		if b.old(m) && m.Deleting.IsZero() && !slices.Contains(m.Hooks, hookName) {
			out = append(out, m)
		}
	}
	return out
}

// old tells whether a Machine is to be replaced.
func (b *base) old(m world.RolledMachine) bool {
	return m.Template != b.pool.NewTemplate.Name || b.pool.ToVersion != "" && m.Version != "" && m.Version != b.pool.ToVersion
}

// hookPatch sets or removes the hook of a Machine that has not changed since it was read.
func hookPatch(m world.RolledMachine, value string) ([]byte, error) {
	meta := map[string]any{"annotations": map[string]json.RawMessage{HookAnnotation: json.RawMessage(value)}}
	if m.ResourceVersion != "" && value == null {
		meta["resourceVersion"] = m.ResourceVersion
	}
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, fmt.Errorf("change the hook of %s: %w", m.Ref, err)
	}
	return data, nil
}
