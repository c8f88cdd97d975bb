// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// objectSet is a step that makes objects what they should be and waits until they work.
type objectSet struct {
	base

	// objects are applied in this order.
	objects []*unstructured.Unstructured
	// also are observed for their health alone: other steps own their content.
	also []*unstructured.Unstructured
	// replace names objects that may be deleted and made anew, because the plan foresaw it.
	replace []v1alpha1.ObjectReference
	// probe asks for a real call through webhooks and conversions.
	probe bool
}

// Want asks for the objects in the step's order.
func (s *objectSet) Want() world.Want {
	w := world.Want{ID: s.id, Probe: s.probe}
	for _, o := range slices.Concat(s.objects, s.also) {
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Present, Object: o})
	}
	return w
}

// Progress is Done when every object is in sync and works.
func (s *objectSet) Progress(w *world.World) step.Progress {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) != len(s.objects)+len(s.also) {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	v := s.verdict(set.Objects[:len(s.objects)])
	for _, o := range set.Objects[len(s.objects):] {
		v.health(o)
	}
	return v.progress(len(s.objects))
}

// Apply writes the objects that are missing or differ, in order, and leaves the others alone.
func (s *objectSet) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) < len(s.objects) {
		return fmt.Errorf("apply %s: its objects were not observed", s.id)
	}
	return s.applyAll(ctx, set.Objects, a)
}

// applyAll stops behind an object that is on its way out: what comes after it in the order waits for the new one.
// Neighbours of one kind don't depend on each other, and are applied together.
func (s *objectSet) applyAll(ctx context.Context, seen []world.Object, a step.Actuator) error {
	var together []*unstructured.Unstructured
	for i, wanted := range s.objects {
		o := seen[i]
		if o.InSync {
			continue
		}
		apply := !o.Terminating && !o.Immutable
		if len(together) > 0 && (!apply || together[0].GroupVersionKind() != wanted.GroupVersionKind()) {
			if err := step.ApplyAll(ctx, a, together); err != nil {
				return err
			}
			together = nil
		}
		switch {
		case apply:
			together = append(together, wanted)
		case !o.Terminating && s.replaceable(o.Ref):
			return a.Delete(ctx, o.Ref, step.Cascade)
		default:
			return nil
		}
	}
	return step.ApplyAll(ctx, a, together)
}

func (s *objectSet) replaceable(r world.Ref) bool {
	return slices.Contains(s.replace, v1alpha1.ObjectReference(r))
}

// verdict sums up what was seen of the objects of a step.
type verdict struct {
	pending, waiting int
	details          []string
	causes           []world.Cause
	mark             strings.Builder
}

func (s *objectSet) verdict(objects []world.Object) *verdict {
	v := &verdict{}
	for _, o := range objects {
		v.sync(o, s.replaceable(o.Ref))
		if o.InSync {
			v.health(o)
		}
	}
	return v
}

// sync counts an object that is not yet what it should be.
func (v *verdict) sync(o world.Object, replaceable bool) {
	fmt.Fprintf(&v.mark, "%s:%t:%t;", o.Ref, o.Found, o.InSync)
	switch {
	case o.InSync:
	case o.Terminating:
		v.terminating(o)
	case o.Immutable && !replaceable:
		v.refuse(o, "a field that can't be changed in place differs: "+o.Drift, "make a new plan with `capstan plan`")
	case o.Silent:
		v.silent(o)
	case o.Refused != "":
		// Each observation asks again, so that an answer that depends on a webhook coming up heals by itself.
		v.refuse(o, o.Refused, "correct the object or what refuses it, then `capstan resume`")
	default:
		v.pending++
		v.details = append(v.details, o.Ref.String()+" "+difference(o))
	}
}

func difference(o world.Object) string {
	if !o.Found {
		return "is missing"
	}
	return "differs: " + o.Drift
}

func (v *verdict) refuse(o world.Object, why, remedy string) {
	v.wait(fmt.Sprintf("the API server refuses %s: %s", o.Ref, why))
	v.causes = append(v.causes, world.Cause{
		Reason: v1alpha1.StopRejected, Message: fmt.Sprintf("The API server refuses %s: %s", o.Ref, why),
		Remedy: remedy, Object: o.Ref, Definite: true,
	})
}

// terminating waits until an object has gone. What holds it is named, and the run stops when nothing moves.
func (v *verdict) terminating(o world.Object) {
	detail := o.Ref.String() + " is being deleted"
	if o.Held != "" {
		detail += ", and is held by " + o.Held
	}
	v.wait(detail)
	v.causes = append(v.causes, world.Cause{
		Reason: v1alpha1.StopRejected, Message: detail,
		Remedy: "let the owner of what holds it finish; once it is gone, `capstan resume`", Object: o.Ref,
	})
}

// silent waits for a webhook that may be about to answer: its Pods are replaced as others are.
func (v *verdict) silent(o world.Object) {
	v.wait(fmt.Sprintf("%s waits for a webhook: %s", o.Ref, o.Refused))
	v.causes = append(v.causes, world.Cause{
		Reason: v1alpha1.StopWebhookSilent, Message: fmt.Sprintf("%s can't be compared, as a webhook does not answer: %s", o.Ref, o.Refused),
		Remedy: "look at the Pods behind the webhook that is named, then `capstan resume`", Object: o.Ref,
	})
}

func (v *verdict) wait(detail string) {
	v.waiting++
	v.details = append(v.details, detail)
}

// health counts an object that is in place but does not work yet.
func (v *verdict) health(o world.Object) {
	if o.Health == nil || !o.Found {
		return
	}
	fmt.Fprintf(&v.mark, "%s=%d:%t;", o.Ref, o.Health.Progress, o.Health.OK)
	if o.Health.OK {
		return
	}
	if o.Health.Handover != nil {
		v.pending++
		v.details = append(v.details, naming(o.Ref, o.Health.Message))
		return
	}
	v.wait(naming(o.Ref, o.Health.Message))
	v.causes = append(v.causes, o.Health.Causes...)
}

// naming makes sure that a message names its object.
func naming(r world.Ref, message string) string {
	if strings.Contains(message, r.String()) {
		return message
	}
	return r.String() + ": " + message
}

func (v *verdict) progress(total int) step.Progress {
	p := step.Progress{Mark: v.mark.String(), Causes: v.causes}
	switch {
	case v.pending > 0:
		p.State = step.Pending
	case v.waiting > 0:
		p.State = step.Waiting
	default:
		p.State = step.Done
		p.Detail = fmt.Sprintf("%d objects at the target", total)
		return p
	}
	p.Detail = summarize(v.details)
	return p
}

// summarize keeps a line readable: the first detail and how many more there are.
func summarize(details []string) string {
	if len(details) == 0 {
		return ""
	}
	if len(details) == 1 {
		return details[0]
	}
	return fmt.Sprintf("%s (and %d more)", details[0], len(details)-1)
}
