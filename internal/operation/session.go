// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package operation holds what a person can ask of Capstan, independent of where it is asked: plan, start, follow,
// resume, steer, look back. Command line and controller are hosts that call it. It makes no decisions of its own about
// an upgrade: those are in packages plan and engine.
package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/actuate"
	"github.com/capstan-dev/capstan/internal/engine"
	"github.com/capstan-dev/capstan/internal/fetch"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
	"github.com/capstan-dev/capstan/internal/world/live"
)

// trust is how long a step that was seen done is believed without another look. It keeps the many looks of a run from
// slowing down the very API server that the run waits for.
const trust = 2 * time.Second

// Options are what a session needs.
type Options struct {
	// Config reaches the management cluster; its user agent names Capstan.
	Config *rest.Config
	// Clock tells the time.
	Clock clock.WithTicker
	// Offline keeps to releases that are whole on this machine and in the cluster.
	Offline bool
}

// Session is one process at work on one management cluster.
type Session struct {
	config   *rest.Config
	clock    clock.WithTicker
	store    *store.Store
	lease    *store.Lease
	offline  bool
	observer *live.Observer
	// surveyed is what the last status saw of the nodes, at surveyedAt.
	surveyed   *world.Survey
	surveyedAt time.Time
}

// Connect returns a session. It makes no request.
func Connect(o Options) (*Session, error) {
	st, err := store.New(o.Config, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	obs, err := live.New(live.Options{Config: o.Config, Clock: o.Clock, Trust: trust})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Session{config: o.Config, clock: o.Clock, store: st, observer: obs, lease: st.Lease(store.LeaseOptions{}), offline: o.Offline}, nil
}

// Close gives the lease back.
func (s *Session) Close(ctx context.Context) error {
	if err := s.lease.Release(ctx); err != nil {
		return fmt.Errorf("give the lease back: %w", err)
	}
	return nil
}

// Load fetches, checks and renders a release: everything or nothing.
func (s *Session) Load(ctx context.Context, ref string) (*release.Bundle, error) {
	return (&fetch.Fetcher{Releases: s.store, ConfigMaps: s.store, Offline: s.offline, Clock: s.clock}).Load(ctx, ref)
}

// Runs returns all runs, newest first.
func (s *Session) Runs(ctx context.Context) ([]v1alpha1.Upgrade, error) {
	return s.store.Upgrades(ctx)
}

// Plan returns the plan of a run.
func (s *Session) Plan(ctx context.Context, run *v1alpha1.Upgrade) (*v1alpha1.Plan, error) {
	return s.store.Plan(ctx, run.Spec.Plan)
}

// Observe returns the world without any sets: what is installed and the fleet.
func (s *Session) Observe(ctx context.Context) (*world.World, error) {
	return s.observer.Observe(ctx, nil)
}

// lock is the lease with its errors in the engine's and the user's words.
type lock struct{ lease *store.Lease }

// Hold takes the lease, or renews it when that is due.
func (l lock) Hold(ctx context.Context) error {
	err := l.lease.Hold(ctx)
	if !errors.Is(err, store.ErrLost) {
		return err
	}
	p := &problem.Error{
		Reason: "TakenOver", Exit: problem.ExitStopped, Err: fmt.Errorf("%w: %w", engine.ErrNotHeld, err),
		Message: "Another Capstan process drives the run now, so this one stopped without a further change",
	}
	return p.WithRemedy("watch it with `capstan status -w`")
}

// actuator returns the actuator of a run: repairs that people make by hand after the run began are respected.
func (s *Session) actuator(run *v1alpha1.Upgrade) (*actuate.Live, error) {
	a, err := actuate.NewLive(s.config)
	if err != nil {
		return nil, fmt.Errorf("make actuator: %w", err)
	}
	a.Since = run.CreationTimestamp.Time
	return a, nil
}
