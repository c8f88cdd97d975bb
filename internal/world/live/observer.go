// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// UnavailableError is an observation that could not be made because the API server did not answer, or asked to be
// called again later. The world is unknown then, not empty; observing again makes sense.
type UnavailableError struct {
	// Doing says what was being read.
	Doing string
	// Err is the cause.
	Err error
}

// Error says what could not be read and why.
func (e *UnavailableError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Retryable tells that observing again makes sense; it is always true.
func (e *UnavailableError) Retryable() bool { return true }

// IsRetryable tells whether an error of Observe may go away when the world is observed again.
func IsRetryable(err error) bool {
	u, ok := errors.AsType[*UnavailableError](err)
	return ok && u.Retryable()
}

// Options are what an Observer needs.
type Options struct {
	// Config reaches the management cluster. Its user agent and its rate limit are kept; where it has no limit there is
	// none, as the API server's priority and fairness does better.
	Config *rest.Config
	// Clock tells the time of observations.
	Clock clock.PassiveClock
	// Log gets what only developers want to know. The zero Logger is silent.
	Log logr.Logger
	// FleetInterval is the least time between two readings of all Clusters and Machines; zero means 2 s, a negative one
	// reads them every time.
	FleetInterval time.Duration
	// Trust is how long a set that was seen whole, every object at its target and working, is not looked at again; zero
	// looks each time.
	Trust time.Duration
	// Parallel bounds the requests in flight; zero means 10.
	Parallel int
}

// Observer observes one management cluster. It remembers what did not change since the last time, so one that lives
// long is cheap to ask. It is safe for concurrent use; observations are made one after the other.
type Observer struct {
	*shared

	// since is from when on repairs by hand are respected; zero is never.
	since time.Time
}

// shared is what all views of one Observer share.
type shared struct {
	clients       *clients
	clock         clock.PassiveClock
	log           logr.Logger
	fleetInterval time.Duration
	trust         time.Duration
	parallel      int
	// proxy leads to workload clusters whose kubeconfig names none.
	proxy proxyFunc

	mu    sync.Mutex
	fleet fleetMemo
	memo  *memo
	walks walks
	// home is the management cluster as it was read at homeAt.
	home   world.Management
	homeAt time.Time
}

// New returns an Observer. It makes no request.
func New(o Options) (*Observer, error) {
	if o.Config == nil || o.Clock == nil {
		return nil, errors.New("make observer: config and clock are needed")
	}
	c, err := newClients(o.Config)
	if err != nil {
		return nil, fmt.Errorf("make observer: %w", err)
	}
	if o.FleetInterval == 0 {
		o.FleetInterval = 2 * time.Second
	}
	if o.Parallel <= 0 {
		o.Parallel = 10
	}
	return &Observer{shared: &shared{
		clients: c, clock: o.Clock, log: o.Log, fleetInterval: o.FleetInterval, trust: o.Trust, parallel: o.Parallel, proxy: o.Config.Proxy,
		fleet: newFleetMemo(), memo: newMemo(),
	}}, nil
}

// Respecting returns a view of the same Observer to which fields that a person set by hand after since are as
// wanted. It compares what an Actuator with the same respect would apply, and shares everything that is remembered.
func (o *Observer) Respecting(since time.Time) *Observer {
	return &Observer{shared: o.shared, since: since}
}

// Observe returns the world as it is now, with the state of every object that wants ask for. Wanted objects must not be
// changed afterwards: they are compared by identity first. An error that IsRetryable says nothing about the world.
func (o *Observer) Observe(ctx context.Context, wants []world.Want) (*world.World, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &round{Observer: o, at: o.clock.Now(), fleetAnew: slices.ContainsFunc(wants, func(w world.Want) bool { return w.Fleet })}
	return r.look(ctx, wants)
}

// look makes the observation, and the visits of a survey that goes with it.
func (r *round) look(ctx context.Context, wants []world.Want) (*world.World, error) {
	w := &world.World{At: r.at}
	var err error
	if w.Management, err = r.recentManagement(ctx); err != nil {
		return nil, err
	}
	r.nodes = w.Management.Nodes
	err = together(
		func() error { return r.observeFleet(ctx, w) },
		func() (err error) { w.Sets, err = r.sets(ctx, wants); return err },
		func() error {
			if r.survey != nil {
				r.survey.visitOthers(ctx)
			}
			return nil
		},
	)
	if err != nil {
		return nil, err
	}
	r.memo.prune(r.at)
	return w, nil
}

// recentManagement reads the management cluster unless that was done a moment ago. What is installed is for plans; a run
// changes it itself and needs the nodes alone.
func (r *round) recentManagement(ctx context.Context) (world.Management, error) {
	if r.trust > 0 && !r.homeAt.IsZero() && r.at.Sub(r.homeAt) < r.trust {
		return r.home, nil
	}
	var m world.Management
	var err error
	if running := !r.since.IsZero(); running && r.trust > 0 && !r.homeAt.IsZero() {
		m = r.home
		m.Nodes, err = r.readNodes(ctx)
	} else {
		m, err = r.management(ctx)
	}
	if err != nil {
		return m, err
	}
	r.home, r.homeAt = m, r.at
	return m, nil
}

// round is one observation: what is asked once and used often lives here.
type round struct {
	*Observer

	at    time.Time
	nodes []world.Node
	// fleetAnew tells that the fleet is read whenever it was read last.
	fleetAnew bool
	// survey is made along with the observation; nil if none is. Then clusters are those that were read before it began.
	survey   *surveyor
	clusters []bareCluster

	refreshOnce sync.Once
	selected    onceMap[podsAnswer]
	services    onceMap[string]
	calls       onceMap[callResult]
	answers     onceMap[answer]
	labelled    onceMap[labelledAnswer]
}

// fault turns an error of a request into one of Observe: typed when asking again makes sense.
func fault(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	switch diagnose.Classify(err) {
	case diagnose.ClassUnreachable, diagnose.ClassWebhookSilent, diagnose.ClassConflict:
		return &UnavailableError{Doing: doing, Err: err}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
