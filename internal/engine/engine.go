// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine moves a run forward by one decision at a time: observe, decide, write the status ahead, act once,
// return. It never waits, and nothing that it starts outlives a tick; the host calls Tick again. It knows neither what a
// step does nor where the world comes from.
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// Observer gives the world.
type Observer interface {
	// Observe returns one consistent picture with the wanted sets in it.
	Observe(ctx context.Context, wants []world.Want) (*world.World, error)
}

// Runs keeps Upgrade objects.
type Runs interface {
	// Upgrade returns a run by its name.
	Upgrade(ctx context.Context, name string) (*v1alpha1.Upgrade, error)
	// UpdateStatus writes the status if nobody else changed the object since it was read, and updates run to what is
	// stored now.
	UpdateStatus(ctx context.Context, run *v1alpha1.Upgrade) error
}

// Lock keeps two processes from driving runs at once.
type Lock interface {
	// Hold takes or renews the lock. It fails when another live process has it.
	Hold(ctx context.Context) error
}

// Prober gives the counts of calls to workload API servers since the process started.
type Prober interface {
	// Snapshot returns the counts for each cluster, sorted.
	Snapshot() []world.Probe
}

// ErrNotHeld is wrapped by errors of Lock when another process drives runs.
var ErrNotHeld = errors.New("another process drives the run")

// Work is what a run consists of, made from its plan.
type Work struct {
	Steps    []step.Step
	Baseline fence.Baseline
	// Hold are the Clusters that are the management cluster itself: they are paused while components move.
	Hold []world.Ref
}

// Engine moves runs. All fields are needed but Prober and Events.
type Engine struct {
	Observer Observer
	Actuator step.Actuator
	Runs     Runs
	Lock     Lock
	Clock    clock.PassiveClock
	// Work loads what a run consists of. It is called on each tick; the implementation may remember.
	Work func(ctx context.Context, run *v1alpha1.Upgrade) (*Work, error)
	// Identity names this process in the journal.
	Identity string
	Prober   Prober
	Events   event.Sink
}

// Outcome is what a tick did.
type Outcome struct {
	// Ended tells that the run is over.
	Ended bool
	// Stopped tells that the run holds until a person acts.
	Stopped bool
	// After is how long the host should wait before the next tick.
	After time.Duration
	// Run is the run as it is stored now.
	Run *v1alpha1.Upgrade
}

// Tick makes at most one decision for the run and returns. An error leaves the run as it was: the next tick decides
// anew from the world.
func (e *Engine) Tick(ctx context.Context, name string) (Outcome, error) {
	if err := e.Lock.Hold(ctx); err != nil {
		return Outcome{}, fmt.Errorf("hold the lock: %w", err)
	}
	run, err := e.Runs.Upgrade(ctx, name)
	if err != nil {
		return Outcome{}, fmt.Errorf("read run %s: %w", name, err)
	}
	if run.Status.FinishedAt != nil {
		return Outcome{Ended: true, Run: run}, nil
	}
	work, w, err := e.look(ctx, run)
	if err != nil && run.Spec.Intent == v1alpha1.IntentAbort {
		return e.carryOut(ctx, run, nil, abandon(input{run: run, now: e.Clock.Now(), identity: e.Identity}))
	}
	if err != nil {
		return Outcome{}, err
	}
	d := decide(input{
		run: run, steps: work.Steps, hold: work.Hold, world: w, now: e.Clock.Now(), identity: e.Identity,
		fence: judge(work.Baseline, w, run), probes: e.probes(),
	})
	return e.carryOut(ctx, run, w, d)
}

// look loads what the run consists of and observes the world.
func (e *Engine) look(ctx context.Context, run *v1alpha1.Upgrade) (*Work, *world.World, error) {
	work, err := e.Work(ctx, run)
	if err != nil {
		return nil, nil, fmt.Errorf("load run %s: %w", run.Name, err)
	}
	asked := wants(work.Steps, run.Status.Steps)
	if run.Spec.Intent == v1alpha1.IntentAbort {
		asked = leavings(work.Steps)
	}
	w, err := e.Observer.Observe(ctx, asked)
	if err != nil {
		return nil, nil, fmt.Errorf("observe: %w", err)
	}
	return work, w, nil
}

// carryOut writes the decision's status, then makes its one change. Pausing a cluster comes before the status, which says
// that it is paused: the attempt may fail, and is then made again.
func (e *Engine) carryOut(ctx context.Context, run *v1alpha1.Upgrade, w *world.World, d decision) (Outcome, error) {
	actuator := guard(e.Actuator, e.Lock)
	if d.kind == kindPauseCluster || d.kind == kindReleaseCluster {
		if err := actuator.Patch(ctx, d.cluster, d.patch); err != nil {
			return Outcome{}, fmt.Errorf("%s %s: %w", d.kind.verb(), d.cluster, err)
		}
	}
	if d.write {
		run.Status = d.status
		if err := e.Runs.UpdateStatus(ctx, run); err != nil {
			return Outcome{}, fmt.Errorf("write the journal: %w", err)
		}
	}
	for _, ev := range d.events {
		e.emit(ev)
	}
	out := Outcome{Ended: d.kind == kindEnd, Stopped: d.kind == kindStop || d.kind == kindHold, After: d.after, Run: run}
	switch d.kind {
	case kindAct:
		if err := d.step.Apply(ctx, w, actuator); err != nil {
			return out, fmt.Errorf("%s: %w", d.step.ID(), err)
		}
	case kindSweep:
		if err := d.cleaner.Sweep(ctx, w, actuator); err != nil {
			return out, fmt.Errorf("clean up: %w", err)
		}
	case kindNudge:
		if err := actuator.Delete(ctx, d.pod, step.Cascade); err != nil {
			return out, fmt.Errorf("restart %s: %w", d.pod, err)
		}
	case kindWait, kindPauseCluster, kindReleaseCluster, kindStop, kindHold, kindEnd:
	}
	return out, nil
}

// wants asks for what the steps need that may be ready by the journal. The journal only says where to look: a step whose
// objects were not looked at is not done, and one whose needs have come undone is not ready. So a lost journal costs a
// few ticks and nothing else.
func wants(steps []step.Step, records []v1alpha1.StepRecord) []world.Want {
	done := map[string]bool{}
	for _, r := range records {
		done[r.ID] = r.State == v1alpha1.StepDone
	}
	var out []world.Want
	asked := map[string]bool{}
	open := false
	for _, s := range steps {
		open = open || !done[s.ID()]
		w, ok := s.(step.Watcher)
		if !ok || slices.ContainsFunc(s.Needs(), func(n string) bool { return !done[n] }) {
			continue
		}
		// Steps about the same thing ask for one set.
		if want := w.Want(); !asked[want.ID] {
			asked[want.ID] = true
			out = append(out, want)
		}
	}
	if !open {
		// The end needs a look at the fleet that is no older than the last step.
		out = append(out, world.Want{ID: "fleet", Fleet: true})
	}
	return out
}

// leavings asks for what steps would leave behind if the run ended now.
func leavings(steps []step.Step) []world.Want {
	var out []world.Want
	for _, s := range steps {
		if c, ok := s.(step.Cleaner); ok {
			out = append(out, c.Want())
		}
	}
	return out
}

func (e *Engine) probes() []world.Probe {
	if e.Prober == nil {
		return nil
	}
	return e.Prober.Snapshot()
}

func (e *Engine) emit(ev event.Event) {
	if e.Events != nil {
		e.Events(ev)
	}
}
