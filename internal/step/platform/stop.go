// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// stop scales the old Deployments of a component to zero and waits until their Pods are gone. A Deployment that is
// already at the target counts as stopped: it is the new one.
type stop struct {
	base

	// deployments are those of the new version; their namesakes of the old version are stopped.
	deployments []*unstructured.Unstructured
	// removed are Deployments that the new version no longer has.
	removed []*unstructured.Unstructured
}

// removedDeployments returns the Deployments among the objects to prune.
func removedDeployments(refs []v1alpha1.ObjectReference) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, r := range refs {
		if r.Kind == "Deployment" {
			out = append(out, identity(r))
		}
	}
	return out
}

// identity returns an object that has nothing but its identity.
func identity(r v1alpha1.ObjectReference) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(r.APIVersion)
	o.SetKind(r.Kind)
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

// Want asks for each Deployment twice: is it the new one, and does the old one still have Pods.
func (s *stop) Want() world.Want {
	w := world.Want{ID: s.id}
	for _, d := range s.deployments {
		w.Objects = append(w.Objects,
			world.Wanted{Presence: world.Present, Object: d},
			world.Wanted{Presence: world.Quiet, Object: d})
	}
	for _, d := range s.removed {
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Quiet, Object: d})
	}
	return w
}

// old returns the Deployments that still have to go, as they were observed.
func (s *stop) old(w *world.World) ([]world.Object, bool) {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) != 2*len(s.deployments)+len(s.removed) {
		return nil, false
	}
	var out []world.Object
	for i := range s.deployments {
		if target, quiet := set.Objects[2*i], set.Objects[2*i+1]; !target.InSync && quiet.Found {
			out = append(out, quiet)
		}
	}
	for _, quiet := range set.Objects[2*len(s.deployments):] {
		if quiet.Found {
			out = append(out, quiet)
		}
	}
	return out, true
}

// Progress is Done when no old controller runs any more.
func (s *stop) Progress(w *world.World) step.Progress {
	old, ok := s.old(w)
	if !ok {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	p := step.Progress{State: step.Done, Detail: "No old controller runs"}
	var mark strings.Builder
	for _, o := range old {
		fmt.Fprintf(&mark, "%s:%t;", o.Ref, o.InSync)
		p.Detail = fmt.Sprintf("%s still has Pods", o.Ref)
		if o.InSync {
			p.State = waitUnlessPending(p.State)
			continue
		}
		p.State = step.Pending
	}
	p.Mark = mark.String()
	return p
}

func waitUnlessPending(s step.State) step.State {
	if s == step.Pending {
		return s
	}
	return step.Waiting
}

// Apply asks for zero replicas where an old Deployment still has Pods.
func (s *stop) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	old, ok := s.old(w)
	if !ok {
		return fmt.Errorf("apply %s: its Deployments were not observed", s.id)
	}
	for _, o := range old {
		if o.InSync {
			continue
		}
		if err := a.Patch(ctx, o.Ref, []byte(`{"spec":{"replicas":0}}`)); err != nil {
			return fmt.Errorf("stop %s: %w", o.Ref, err)
		}
	}
	return nil
}

// prune deletes objects that the new version no longer has.
type prune struct {
	base

	refs []v1alpha1.ObjectReference
}

// Want asks for the objects to be gone.
func (s *prune) Want() world.Want {
	w := world.Want{ID: s.id}
	for _, r := range s.refs {
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Absent, Object: identity(r)})
	}
	return w
}

// Progress is Done when none of the objects is left.
func (s *prune) Progress(w *world.World) step.Progress {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) != len(s.refs) {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	p := step.Progress{State: step.Done, Detail: fmt.Sprintf("%d objects removed", len(s.refs))}
	var mark strings.Builder
	for _, o := range set.Objects {
		fmt.Fprintf(&mark, "%s:%t:%t;", o.Ref, o.Found, o.Terminating)
		switch {
		case !o.Found:
		case o.Terminating:
			p.State = waitUnlessPending(p.State)
			p.Detail = fmt.Sprintf("%s is being deleted", o.Ref)
		default:
			p.State = step.Pending
			p.Detail = fmt.Sprintf("%s is still there", o.Ref)
		}
	}
	p.Mark = mark.String()
	return p
}

// Apply deletes what is left.
func (s *prune) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	for _, o := range w.Sets[s.id].Objects {
		if !o.Found || o.Terminating {
			continue
		}
		if err := a.Delete(ctx, o.Ref, step.Cascade); err != nil {
			return fmt.Errorf("prune %s: %w", o.Ref, err)
		}
	}
	return nil
}
