// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package testbed is a small simulated management cluster for tests of decisions: it observes, takes changes, keeps
// runs, and can lose the process that drives it at any write. It knows nothing of real Kubernetes behaviour beyond what
// its comments say; what is true of a real API server is tested on the sandbox.
package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// ErrCrash is what a process gets that lost its connection for ever at a write.
var ErrCrash = errors.New("the process was killed")

// rolloutTime is how many observations a Deployment takes to roll.
const rolloutTime = 3

// object is one stored object.
type object struct {
	content string
	// rolling counts the observations until the object works at its content.
	rolling int
	// stopped tells that a Deployment was scaled to zero; pods counts down to none.
	stopped bool
	pods    int
	// doc is the object itself, where its fields matter.
	doc *unstructured.Unstructured
}

// Cluster is the simulated cluster. It outlives the processes that drive it.
type Cluster struct {
	Clock *testingclock.FakeClock
	// Fleet is what Observe reports as workload clusters.
	Fleet []world.Cluster
	// Changes are the writes that changed something, in order.
	Changes []string
	// Broken names Deployments whose new Pods never become ready, with the cause.
	Broken map[string]world.Cause
	// Frozen names objects, as Kind/name, that refuse changes in place.
	Frozen map[string]bool
	// Stores are resources whose objects are stored in versions, by their names.
	Stores map[string]*Store
	// Pools are owners of Machines.
	Pools []*Pool

	objects map[world.Ref]*object
	runs    map[string]*v1alpha1.Upgrade
	version int
	writes  int
	crashAt int
	after   bool
}

// New returns an empty cluster.
func New(at time.Time) *Cluster {
	return &Cluster{
		Clock: testingclock.NewFakeClock(at), objects: map[world.Ref]*object{}, runs: map[string]*v1alpha1.Upgrade{},
		Broken: map[string]world.Cause{}, Frozen: map[string]bool{}, Stores: map[string]*Store{},
	}
}

// Have puts an object there as if it had been there for long.
func (c *Cluster) Have(objs ...*unstructured.Unstructured) {
	for _, o := range objs {
		c.objects[world.RefOf(o)] = &object{content: content(o), pods: 1, doc: o.DeepCopy()}
	}
}

// Start stores a run.
func (c *Cluster) Start(run *v1alpha1.Upgrade) { c.runs[run.Name] = run.DeepCopy() }

// Run returns a run as it is stored.
func (c *Cluster) Run(name string) *v1alpha1.Upgrade { return c.runs[name].DeepCopy() }

// WipeStatus loses the status of a run, as clusterctl move and some restores do.
func (c *Cluster) WipeStatus(name string) { c.runs[name].Status = v1alpha1.UpgradeStatus{} }

// Resume asks the run to go on after a stop.
func (c *Cluster) Resume(name string) { c.runs[name].Spec.Resumes++ }

// CrashAt makes the n-th write from now (counted from 1) the last one of its process; with after it still takes effect.
func (c *Cluster) CrashAt(n int, after bool) { c.writes, c.crashAt, c.after = 0, n, after }

// Writes counts the writes since CrashAt.
func (c *Cluster) Writes() int { return c.writes }

// Contents lists the objects with what is in them, sorted.
func (c *Cluster) Contents() []string {
	out := make([]string, 0, len(c.objects))
	for ref, o := range c.objects {
		out = append(out, ref.String()+" "+o.content)
	}
	slices.Sort(out)
	return out
}

// Process is one process that drives runs; it is the Observer, the Actuator, the Runs and the Lock of an engine.
type Process struct {
	c    *Cluster
	dead bool
	// places are how far this process has gone through stored objects.
	places map[string]*place
}

// Process returns a new process.
func (c *Cluster) Process() *Process { return &Process{c: c, places: map[string]*place{}} }

// Hold always succeeds: two processes at once are tested on a real API server.
func (p *Process) Hold(context.Context) error { return p.alive() }

func (p *Process) alive() error {
	if p.dead {
		return ErrCrash
	}
	return nil
}

// write makes one write, or loses the process before or after it.
func (p *Process) write(do func() error) error {
	if p.dead {
		return ErrCrash
	}
	p.c.writes++
	crash := p.c.crashAt > 0 && p.c.writes == p.c.crashAt
	if crash {
		p.dead = true
		if !p.c.after {
			return ErrCrash
		}
	}
	if err := do(); err != nil {
		return err
	}
	if crash {
		return ErrCrash
	}
	return nil
}

// Upgrade returns a run.
func (p *Process) Upgrade(_ context.Context, name string) (*v1alpha1.Upgrade, error) {
	run, ok := p.c.runs[name]
	if !ok {
		return nil, fmt.Errorf("run %s: not found", name)
	}
	return run.DeepCopy(), p.alive()
}

// UpdateStatus stores the status with an optimistic lock.
func (p *Process) UpdateStatus(_ context.Context, run *v1alpha1.Upgrade) error {
	return p.write(func() error {
		stored := p.c.runs[run.Name]
		if stored.ResourceVersion != run.ResourceVersion {
			return apierrors.NewConflict(schema.GroupResource{Resource: "upgrades"}, run.Name, errors.New("changed meanwhile"))
		}
		p.c.version++
		stored.Status = *run.Status.DeepCopy()
		stored.ResourceVersion = fmt.Sprint(p.c.version)
		run.ResourceVersion = stored.ResourceVersion
		return nil
	})
}

// Apply stores an object; a Deployment starts to roll.
func (p *Process) Apply(_ context.Context, obj *unstructured.Unstructured) error {
	return p.write(func() error {
		ref, want := world.RefOf(obj), content(obj)
		o := p.c.objects[ref]
		if o != nil && o.content == want && !o.stopped {
			return nil
		}
		if o == nil {
			o = &object{}
			p.c.objects[ref] = o
		}
		o.content, o.stopped = want, false
		if len(p.c.Pools) > 0 {
			o.doc = obj.DeepCopy()
		}
		if ref.Kind == "Deployment" {
			o.rolling, o.pods = rolloutTime, 1
		}
		p.c.Changes = append(p.c.Changes, "apply "+ref.String()+" "+want)
		return nil
	})
}

// Patch understands the two patches that steps and the fence make.
func (p *Process) Patch(_ context.Context, ref world.Ref, patch []byte) error {
	return p.write(func() error {
		if known, err := p.c.patchPool(ref, patch); known {
			return err
		}
		switch {
		case strings.Contains(string(patch), `"replicas":0`):
			o := p.c.objects[ref]
			if o.stopped {
				return nil
			}
			o.stopped, o.pods = true, 2
		case ref.Kind == "Cluster":
			if changed, err := p.c.pause(ref, patch); err != nil || !changed {
				return err
			}
		default:
			return fmt.Errorf("patch %s: unexpected %s", ref, patch)
		}
		p.c.Changes = append(p.c.Changes, "patch "+ref.String())
		return nil
	})
}

// pause makes the change of a Cluster that pauses or unpauses it, and tells whether that changed anything.
func (c *Cluster) pause(ref world.Ref, patch []byte) (bool, error) {
	var change struct {
		Metadata struct{ Annotations map[string]*string }
		Spec     *struct{ Paused *bool }
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return false, fmt.Errorf("patch %s: %w", ref, err)
	}
	i := slices.IndexFunc(c.Fleet, func(f world.Cluster) bool { return f.Namespace == ref.Namespace && f.Name == ref.Name })
	f := &c.Fleet[i]
	was := []any{f.SpecPaused, f.HeldFor, f.PausedBy, f.PausedBefore}
	if change.Spec != nil {
		f.SpecPaused = ""
		if change.Spec.Paused != nil {
			f.SpecPaused = fmt.Sprint(*change.Spec.Paused)
		}
		f.Paused = f.SpecPaused == "true"
	}
	for field, at := range map[string]*string{
		v1alpha1.HeldForAnnotation: &f.HeldFor, v1alpha1.PausedByAnnotation: &f.PausedBy, v1alpha1.PausedBeforeAnnotation: &f.PausedBefore,
	} {
		if value, named := change.Metadata.Annotations[field]; named {
			*at = ""
			if value != nil {
				*at = *value
			}
		}
	}
	return !slices.Equal(was, []any{f.SpecPaused, f.HeldFor, f.PausedBy, f.PausedBefore}), nil
}

// Delete removes an object at once.
func (p *Process) Delete(_ context.Context, ref world.Ref, _ step.Deletion) error {
	return p.write(func() error {
		if _, ok := p.c.objects[ref]; !ok {
			return nil
		}
		delete(p.c.objects, ref)
		p.c.Changes = append(p.c.Changes, "delete "+ref.String())
		return nil
	})
}

// content is an object's identity-free text; equal texts are the same content.
func content(o *unstructured.Unstructured) string {
	text, err := json.Marshal(o.Object["spec"])
	if err != nil {
		return err.Error()
	}
	if v, ok := o.Object["version"].(string); ok {
		return v
	}
	return string(text)
}

// Steer changes what is wanted of a run.
func (c *Cluster) Steer(name string, intent v1alpha1.Intent) { c.runs[name].Spec.Intent = intent }

// Settle lets time pass for the simulated controllers.
func (c *Cluster) Settle() { c.settle() }
