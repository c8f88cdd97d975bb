// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/engine"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// lostLock is lost as soon as a tick has begun, as when the API server takes longer for an answer than the lease lasts.
type lostLock struct{ left int }

func (l *lostLock) Hold(context.Context) error {
	if l.left == 0 {
		return engine.ErrNotHeld
	}
	l.left--
	return nil
}

func TestNothingIsWrittenOnceTheLockIsLostWithinATick(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	e := s.engine("first")
	e.Lock = &lostLock{left: 1}
	if _, err := e.Tick(t.Context(), runName); !errors.Is(err, engine.ErrNotHeld) {
		t.Errorf("the tick returned %v, want ErrNotHeld", err)
	}
	if len(s.cluster.Changes) > 0 {
		t.Errorf("changes were made without the lock: %v", s.cluster.Changes)
	}
}

// deafOnce refuses the first patch, as an admission webhook does whose Pod is being replaced.
type deafOnce struct {
	step.Actuator
	refused bool
}

var errDeaf = errors.New("the webhook does not answer")

func (d *deafOnce) Patch(ctx context.Context, ref world.Ref, patch []byte) error {
	if !d.refused {
		d.refused = true
		return errDeaf
	}
	return d.Actuator.Patch(ctx, ref, patch)
}

func TestClusterIsPausedAlsoIfTheFirstAttemptFails(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.cluster.Fleet[0].Machines[0].UID = "other"
	e := s.engine("first")
	e.Actuator = &deafOnce{Actuator: e.Actuator}
	if _, err := e.Tick(t.Context(), runName); !errors.Is(err, errDeaf) {
		t.Fatalf("the first tick returned %v, want the webhook's silence", err)
	}
	out, err := s.follow(t, e)
	if err != nil || !out.Stopped {
		t.Fatalf("follow: %+v, %v", out, err)
	}
	if !s.cluster.Fleet[0].Paused {
		t.Error("the run says that the cluster is paused, and it is not")
	}
}

// blind can't see the world.
type blind struct{}

var errBlind = errors.New("the conversion webhook does not answer")

func (blind) Observe(context.Context, []world.Want) (*world.World, error) { return nil, errBlind }

func TestAbortNeedsNeitherWorldNorWork(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(e *engine.Engine){
		"the world can't be observed": func(e *engine.Engine) { e.Observer = blind{} },
		"the manifests are lost": func(e *engine.Engine) {
			e.Work = func(context.Context, *v1alpha1.Upgrade) (*engine.Work, error) { return nil, errors.New("not found") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t)
			run := s.cluster.Run(runName)
			run.Spec.Intent = v1alpha1.IntentAbort
			run.Status.Fence = &v1alpha1.FenceStatus{Machines: 3, Unchanged: 3}
			s.cluster.Start(run)
			e := s.engine("first")
			spoil(e)
			out, err := s.follow(t, e)
			if err != nil || !out.Ended {
				t.Fatalf("follow: %+v, %v", out, err)
			}
			got := s.cluster.Run(runName)
			if reason(got) != "False/Aborted" || got.Status.Fence.Unchanged != 3 {
				t.Errorf("Succeeded is %s with %d Machines unchanged, want False/Aborted with 3", reason(got), got.Status.Fence.Unchanged)
			}
		})
	}
}

// withoutFleet is a management cluster that does not serve Cluster API's kinds.
type withoutFleet struct{ engine.Observer }

func (o withoutFleet) Observe(ctx context.Context, wants []world.Want) (*world.World, error) {
	w, err := o.Observer.Observe(ctx, wants)
	if err == nil {
		w.Clusters, w.Management.ClusterAPIVersion = nil, ""
	}
	return w, err
}

func TestFleetThatIsNotServedIsNotTakenForDeleted(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	e := s.engine("first")
	e.Observer = withoutFleet{e.Observer}
	out, err := s.follow(t, e)
	if err != nil || !out.Stopped || out.Ended {
		t.Fatalf("the run got %+v, %v; want it stopped, as nothing proves that the fleet was left alone", out, err)
	}
	run := s.cluster.Run(runName)
	if len(run.Status.Fence.Expected) > 0 || !strings.Contains(run.Status.Stops[0].Message, "can't be read") {
		t.Errorf("expected changes %q, stop %q; want none, and that the fleet can't be read", run.Status.Fence.Expected, run.Status.Stops[0].Message)
	}
	s.cluster.Clock.Step(time.Hour)
	s.cluster.Resume(runName)
	if out, err := e.Tick(t.Context(), runName); err != nil || out.Stopped {
		t.Errorf("the first look after a resume gave %+v, %v; want it to wait anew", out, err)
	}
}
