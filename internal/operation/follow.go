// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/actuate"
	"github.com/capstan-dev/capstan/internal/engine"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/ownership"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
	"github.com/capstan-dev/capstan/internal/world/live"
)

// retryPause is how long is waited after a call to the cluster that did not work.
const retryPause = time.Second

// refusedPatience is how long a change that the API server refuses is tried again: what it refuses it for may pass with the
// next look at the world, and seldom does.
const refusedPatience = 20 * time.Second

// Follow drives a run until it ends or stops, and returns it as it is then. An error that is no problem.Error means that
// the cluster could not be reached for as long as the run's stall limit; the run can be resumed.
func (s *Session) Follow(ctx context.Context, name string, sink event.Sink) (*v1alpha1.Upgrade, error) {
	run, err := s.store.Upgrade(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", name, err)
	}
	prober, err := live.NewProber(live.ProberOptions{Config: s.config, Clock: s.clock})
	if err != nil {
		return nil, fmt.Errorf("probe the fleet: %w", err)
	}
	stop := begin(ctx, prober)
	defer stop()
	actuator, err := s.actuator(run)
	if err != nil {
		return nil, err
	}
	observer := s.observer.Respecting(run.CreationTimestamp.Time)
	actuator.Kept, actuator.Applied, actuator.Patched = s.tellKept(sink), observer.Applied, observer.Patched
	e := &engine.Engine{
		Observer: observer, Actuator: actuator, Runs: s.store, Lock: lock{lease: s.lease},
		Clock: s.clock, Identity: s.lease.Identity().Who(), Events: sink, Work: s.remember(),
		Prober: &tally{before: run.Status.Fence, now: prober},
	}
	return s.loop(ctx, e, run, sink)
}

// begin runs the prober until the returned function is called, which waits for it.
func begin(ctx context.Context, p *live.Prober) func() {
	probing, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(probing) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func (s *Session) loop(ctx context.Context, e *engine.Engine, run *v1alpha1.Upgrade, sink event.Sink) (*v1alpha1.Upgrade, error) {
	var t trouble
	for {
		out, err := e.Tick(ctx, run.Name)
		pause := out.After
		switch {
		case ctx.Err() != nil:
			return run, ctx.Err()
		case err == nil && (out.Ended || out.Stopped):
			return out.Run, nil
		case err == nil:
			t = trouble{}
		case !passing(err):
			return run, err
		default:
			if final := t.more(err, run, s.clock.Now()); final != nil {
				return run, final
			}
			sink(event.Retrying{At: s.clock.Now(), Err: err, Since: t.failing})
			pause = retryPause
		}
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-s.clock.After(pause):
		}
	}
}

// trouble is since when ticks fail, and since when they fail because a change is refused; zero for not at all.
type trouble struct{ failing, refused time.Time }

// more notes one more failure, and returns the error to give up with once there were too many.
func (t *trouble) more(err error, run *v1alpha1.Upgrade, now time.Time) error {
	if t.failing.IsZero() {
		t.failing = now
	}
	switch limit := run.Spec.StallLimit.Duration; {
	case !errors.Is(err, actuate.ErrRefused):
		t.refused = time.Time{}
	case t.refused.IsZero():
		t.refused = now
	case now.Sub(t.refused) > min(refusedPatience, limit):
		return rejected(err)
	}
	if now.Sub(t.failing) > run.Spec.StallLimit.Duration {
		return unreachable(err, run)
	}
	return nil
}

// passing tells whether the same tick may work later. What a user has to act upon does not pass.
func passing(err error) bool {
	if _, final := errors.AsType[*problem.Error](err); final {
		return false
	}
	return !errors.Is(err, store.ErrNotFound) && !errors.Is(err, engine.ErrNotHeld)
}

func rejected(err error) error {
	p := &problem.Error{Reason: v1alpha1.StopRejected, Exit: problem.ExitStopped, Err: err, Message: fmt.Sprintf("The API server refuses the next step: %v", err)}
	if refusal, ok := errors.AsType[*actuate.Error](err); ok {
		p = p.WithObject(refusal.Ref.String())
	}
	return p.WithRemedy("remove what it is refused for, then `capstan resume`; or end the run by `capstan abort`")
}

func unreachable(err error, run *v1alpha1.Upgrade) error {
	p := &problem.Error{
		Reason: "Unreachable", Exit: problem.ExitStopped, Err: err,
		Message: fmt.Sprintf("The management cluster did not take the next step for %s: %v", run.Spec.StallLimit.Duration, err),
	}
	return p.WithRemedy("bring its API server back, then `capstan resume`")
}

// remember returns an engine's Work that loads the parts of a run once.
func (s *Session) remember() func(context.Context, *v1alpha1.Upgrade) (*engine.Work, error) {
	var loaded *engine.Work
	return func(ctx context.Context, run *v1alpha1.Upgrade) (*engine.Work, error) {
		if loaded != nil {
			return loaded, nil
		}
		w, err := s.work(ctx, run)
		if err != nil {
			return nil, err
		}
		loaded = w
		return w, nil
	}
}

// work loads the plan, its artifacts and the fence's baseline from the cluster.
func (s *Session) work(ctx context.Context, run *v1alpha1.Upgrade) (*engine.Work, error) {
	plan, err := s.store.Plan(ctx, run.Spec.Plan)
	if err != nil {
		return nil, fmt.Errorf("read plan %s: %w", run.Spec.Plan, err)
	}
	steps, err := s.steps(ctx, &plan.Spec)
	if err != nil {
		return nil, err
	}
	data, err := s.store.Get(ctx, run.Spec.Fence)
	if err != nil {
		return nil, fmt.Errorf("read the fence's baseline: %w", err)
	}
	baseline, err := fence.Decode(data)
	if err != nil {
		return nil, err
	}
	w := &engine.Work{Steps: steps, Baseline: baseline}
	for _, c := range plan.Spec.SelfHosted {
		w.Hold = append(w.Hold, world.Ref(c))
	}
	return w, nil
}

// steps makes the steps of a plan of either kind.
func (s *Session) steps(ctx context.Context, plan *v1alpha1.PlanSpec) ([]step.Step, error) {
	if plan.Kind == v1alpha1.PlanNodes {
		templates, err := s.templates(ctx, plan.Pools)
		if err != nil {
			return nil, err
		}
		return nodes.Build(plan.Pools, templates)
	}
	objects, err := s.manifests(ctx, plan.Components)
	if err != nil {
		return nil, err
	}
	return platform.Build(plan.Components, objects)
}

// templates loads the machine templates that a plan makes, by the digest of their manifest.
func (s *Session) templates(ctx context.Context, pools []v1alpha1.PlannedPool) (map[string]*unstructured.Unstructured, error) {
	loaded := make([]*unstructured.Unstructured, len(pools))
	err := each(len(pools), func(i int) error {
		data, err := s.store.Get(ctx, pools[i].Artifact)
		if err != nil {
			return fmt.Errorf("read template %s: %w", pools[i].NewTemplate.Name, err)
		}
		objects, err := release.DecodeObjects(data)
		if err != nil {
			return fmt.Errorf("read template %s: %w", pools[i].NewTemplate.Name, err)
		}
		if len(objects) != 1 {
			return fmt.Errorf("read template %s: its artifact holds %d objects", pools[i].NewTemplate.Name, len(objects))
		}
		loaded[i] = objects[0]
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := map[string]*unstructured.Unstructured{}
	for i := range pools {
		out[pools[i].Artifact] = loaded[i]
	}
	return out, nil
}

// manifests loads what a plan applies.
func (s *Session) manifests(ctx context.Context, components []v1alpha1.PlannedComponent) (platform.Objects, error) {
	loaded := make([][]*unstructured.Unstructured, len(components))
	err := each(len(components), func(i int) error {
		c := components[i]
		if c.Action == v1alpha1.ActionNone {
			return nil
		}
		data, err := s.store.Get(ctx, c.Artifact)
		if err != nil {
			return fmt.Errorf("read the manifests of %s: %w", c.Name, err)
		}
		if loaded[i], err = release.DecodeObjects(data); err != nil {
			return fmt.Errorf("read the manifests of %s: %w", c.Name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	objects := platform.Objects{}
	for i, c := range components {
		if c.Action != v1alpha1.ActionNone {
			objects[c.Name] = loaded[i]
		}
	}
	return objects, nil
}

func (s *Session) tellKept(sink event.Sink) func(world.Ref, []ownership.Kept) {
	return func(ref world.Ref, kept []ownership.Kept) {
		for _, k := range kept {
			sink(event.Kept{At: s.clock.Now(), Object: ref.String(), Fields: []string{k.Path}, Manager: k.Manager, ManagerChangeAt: k.At})
		}
	}
}
