// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Times of the watch over components.
const (
	healthInterval  = 100 * time.Millisecond // while waiting for the first healthy answer
	watchInterval   = 2 * time.Second        // afterwards
	minBackoff      = time.Second
	maxBackoff      = 30 * time.Second
	stableAfter     = time.Minute // a run this long resets the back-off
	badAnswersAllow = 3           // answers missed in a row before a component is called unhealthy
)

// component is one part of the sandbox: a child process or a piece of the supervisor itself. run blocks until the part ends.
type component struct {
	name string
	// run starts the part and blocks until it ends or ctx does; started is told the process ID.
	run func(ctx context.Context, started func(pid int)) error
	// health returns nil when the part serves.
	health func(ctx context.Context) error
	// tail returns the last lines of the part's log, for an error message.
	tail  func() string
	clock clock.Clock

	mu     sync.Mutex
	status ComponentStatus
	seen   bool // has been healthy at least once
	lost   error
}

// errEnded is the cause when a process ends by itself although it should run on.
var errEnded = errors.New("ended although it should keep running")

func (c *component) snapshot() ComponentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *component) set(state ComponentState, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.State != state {
		c.status.Since = c.clock.Now()
	}
	c.status.State, c.status.Message = state, message
}

func (c *component) started(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.PID = pid
}

// keep runs the component until ctx ends, again and again with a growing pause.
func (c *component) keep(ctx context.Context) {
	backoff := minBackoff
	for {
		begin := c.clock.Now()
		c.set(StateStarting, "")
		err := c.run(ctx, c.started)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errEnded
		}
		if c.clock.Since(begin) > stableAfter {
			backoff = minBackoff
		}
		c.fell(err, backoff)
		if !sleep(ctx, c.clock, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// fell notes that the component has ended.
func (c *component) fell(err error, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
	c.status.State = StateRestarting
	c.status.Since = c.clock.Now()
	c.status.PID = 0
	c.status.Restarts++
	c.status.Message = fmt.Sprintf("%v; next start after %s", err, pause)
}

// awaitHealthy waits for the first good answer. A component that ends before it ever served fails at once: at start there is nobody who would
// repair it meanwhile.
func (c *component) awaitHealthy(ctx context.Context, limit time.Duration) error {
	deadline := c.clock.Now().Add(limit)
	for {
		err := c.health(ctx)
		if err == nil {
			c.mu.Lock()
			c.seen = true
			c.mu.Unlock()
			c.set(StateHealthy, "")
			return nil
		}
		if cause := c.cause(); cause != nil {
			return fmt.Errorf("%s %w\n%s", c.name, cause, c.tail())
		}
		if c.clock.Now().After(deadline) {
			return fmt.Errorf("%s does not answer after %s: %w\n%s", c.name, limit, err, c.tail())
		}
		if !sleep(ctx, c.clock, healthInterval) {
			return fmt.Errorf("wait for %s: %w", c.name, context.Cause(ctx))
		}
	}
}

func (c *component) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// watch keeps the reported state true until ctx ends.
func (c *component) watch(ctx context.Context) {
	missed := 0
	for sleep(ctx, c.clock, watchInterval) {
		err := c.health(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			missed = 0
			c.set(StateHealthy, "")
			continue
		}
		if missed++; missed >= badAnswersAllow && c.snapshot().State == StateHealthy {
			c.set(StateUnhealthy, err.Error())
		}
	}
}

// sleep waits and says whether it did so undisturbed.
func sleep(ctx context.Context, clk clock.Clock, d time.Duration) bool {
	t := clk.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}
