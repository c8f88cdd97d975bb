// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

var errDown = errors.New("down")

// newTestComponent makes a component whose run and health are the test's. Inside a synctest bubble the real clock is a fake one.
func newTestComponent(run func(context.Context) error, health func() error) *component {
	clk := clock.RealClock{}
	return &component{
		name: "part", clock: clk, tail: func() string { return "  the log" },
		run:    func(ctx context.Context, started func(int)) error { started(7); return run(ctx) },
		health: func(context.Context) error { return health() },
		status: ComponentStatus{Name: "part", State: StatePending},
	}
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAwaitHealthyReturnsAtTheFirstGoodAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked := 0
		c := newTestComponent(untilDone, func() error {
			if asked++; asked < 3 {
				return errDown
			}
			return nil
		})
		go c.keep(ctx)
		if err := c.awaitHealthy(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := c.snapshot(); got.State != StateHealthy || got.PID != 7 || got.Restarts != 0 {
			t.Errorf("got %+v, want a healthy part with its PID", got)
		}
	})
}

func TestAwaitHealthyFailsAtOnceWhenTheProcessEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newTestComponent(func(context.Context) error { return errors.New("bad flag") }, func() error { return errDown })
		go c.keep(ctx)
		begin := clock.RealClock{}.Now()
		err := c.awaitHealthy(ctx, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "bad flag") || !strings.Contains(err.Error(), "the log") {
			t.Errorf("want an error with the cause and the log, got %v", err)
		}
		if waited := (clock.RealClock{}).Since(begin); waited > time.Second {
			t.Errorf("it took %s to see the end of the process", waited)
		}
	})
}

func TestAwaitHealthyFailsAfterItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newTestComponent(untilDone, func() error { return errDown })
		go c.keep(ctx)
		err := c.awaitHealthy(ctx, time.Minute)
		if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("want an error with the last answer and the limit, got %v", err)
		}
	})
}

func TestKeepRestartsWithAGrowingPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var starts []time.Duration
		begin := clock.RealClock{}.Now()
		c := newTestComponent(func(context.Context) error {
			starts = append(starts, clock.RealClock{}.Since(begin))
			if len(starts) == 4 {
				cancel()
			}
			return errDown
		}, func() error { return nil })
		c.keep(ctx)
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}
		if len(starts) != len(want) {
			t.Fatalf("got starts at %v, want %v", starts, want)
		}
		for i := range want {
			if starts[i] != want[i] {
				t.Errorf("start %d at %s, want %s", i, starts[i], want[i])
			}
		}
		if got := c.snapshot().Restarts; got != 3 {
			t.Errorf("got %d restarts, want 3", got)
		}
	})
}

func TestWatchCallsAPartUnhealthyOnlyAfterSeveralBadAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var answer error
		c := newTestComponent(untilDone, func() error { return answer })
		c.set(StateHealthy, "")
		go c.watch(ctx)
		answer = errDown
		clock.RealClock{}.Sleep(2*watchInterval + watchInterval/2)
		if got := c.snapshot().State; got != StateHealthy {
			t.Errorf("after two bad answers: got %s, want Healthy", got)
		}
		clock.RealClock{}.Sleep(watchInterval)
		if got := c.snapshot(); got.State != StateUnhealthy || got.Message != "down" {
			t.Errorf("after three bad answers: got %+v, want Unhealthy with the reason", got)
		}
		answer = nil
		clock.RealClock{}.Sleep(watchInterval)
		if got := c.snapshot().State; got != StateHealthy {
			t.Errorf("after a good answer: got %s, want Healthy", got)
		}
	})
}
