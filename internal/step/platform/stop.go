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

	deployments []*unstructured.Unstructured
}

// Want asks for each Deployment twice: is it the new one, and does the old one still have Pods.
func (s *stop) Want() world.Want {
	w := world.Want{ID: s.id}
	for _, d := range s.deployments {
		w.Objects = append(w.Objects,
			world.Wanted{Presence: world.Present, Object: d},
			world.Wanted{Presence: world.Quiet, Object: d})
	}
	return w
}

// Progress is Done when no old controller runs any more.
func (s *stop) Progress(w *world.World) step.Progress {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) != 2*len(s.deployments) {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	p := step.Progress{State: step.Done, Detail: "No old controller runs"}
	var mark strings.Builder
	for i := range s.deployments {
		target, quiet := set.Objects[2*i], set.Objects[2*i+1]
		fmt.Fprintf(&mark, "%s:%t:%t:%t;", target.Ref, target.InSync, quiet.Found, quiet.InSync)
		if target.InSync || !quiet.Found {
			continue
		}
		p.Detail = fmt.Sprintf("%s still has Pods", target.Ref)
		if quiet.InSync {
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
	set := w.Sets[s.id]
	for i := 0; i+1 < len(set.Objects); i += 2 {
		target, quiet := set.Objects[i], set.Objects[i+1]
		if target.InSync || !quiet.Found || quiet.InSync {
			continue
		}
		if err := a.Patch(ctx, target.Ref, []byte(`{"spec":{"replicas":0}}`)); err != nil {
			return fmt.Errorf("stop %s: %w", target.Ref, err)
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
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(r.APIVersion)
		o.SetKind(r.Kind)
		o.SetNamespace(r.Namespace)
		o.SetName(r.Name)
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Absent, Object: o})
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
