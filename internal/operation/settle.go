// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/world"
)

// settlePause is how long is waited between two looks at the rollouts of the fleet.
const settlePause = 3 * time.Second

// Settle waits until no workload cluster replaces, adds or removes Machines, for at most limit. tell is called when what is
// waited for changes, with what it is. It returns what is still moving then; what can't be observed is not waited for, as
// the plan says so. It writes nothing.
func (s *Session) Settle(ctx context.Context, limit time.Duration, tell func(moving []string)) ([]string, error) {
	begun, last := s.clock.Now(), ""
	for {
		moving, err := s.moving(ctx)
		if err != nil || len(moving) == 0 {
			return nil, err
		}
		if text := fmt.Sprint(moving); text != last {
			tell(moving)
			last = text
		}
		if s.clock.Since(begun) >= limit {
			return moving, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.clock.After(settlePause):
		}
	}
}

// moving says for each cluster whose Machines come or go what they do.
func (s *Session) moving(ctx context.Context) ([]string, error) {
	w, err := s.observer.Observe(ctx, []world.Want{{ID: "fleet", Fleet: true}})
	if err != nil {
		return nil, fmt.Errorf("observe the fleet: %w", err)
	}
	w.Survey = s.observer.Survey(ctx, world.Ask{Topics: []world.Topic{world.TopicRollouts}})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, failed := w.Survey.Failed(world.TopicRollouts); failed {
		return nil, nil
	}
	var out []string
	for _, f := range check.Moving(w) {
		if f.Verdict == v1alpha1.VerdictBlock {
			out = append(out, f.Summary)
		}
	}
	return out, nil
}
