// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/problem"
)

// defaultWait is how long --wait without a time waits.
const defaultWait = time.Hour

// settler waits for the fleet.
type settler interface {
	// Settle waits until no workload cluster replaces, adds or removes Machines, and returns what still does.
	Settle(ctx context.Context, limit time.Duration, tell func(moving []string)) ([]string, error)
}

// waiting is the option to wait for the fleet before a plan is made.
type waiting struct{ limit time.Duration }

func (w *waiting) flags(f *pflag.FlagSet) {
	f.DurationVar(&w.limit, "wait", 0, "wait until no workload cluster replaces, adds or removes Machines, for at most `DURATION` (1h if none is given)")
	f.Lookup("wait").NoOptDefVal = defaultWait.String()
}

// settle waits if that was asked for. What still moves afterwards is for the plan to judge.
func (w *waiting) settle(ctx context.Context, g *global, s settler) error {
	if w.limit < 0 {
		return problem.Usage("BadWait", "--wait", "Nobody can wait for %s", w.limit).WithRemedy("--wait, or --wait=30m")
	}
	if w.limit == 0 {
		return nil
	}
	told := false
	left, err := s.Settle(ctx, w.limit, func(moving []string) {
		if !told {
			g.tell("Waiting for the fleet, for at most %s:", w.limit)
			told = true
		}
		for _, m := range moving {
			g.tell("  %s", m)
		}
	})
	if err == nil && len(left) > 0 {
		g.tell("Not at rest after %s: going on with the plan, which says what is left", w.limit)
	}
	return err
}
