// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// kind is what a decision asks for.
//
//	         ┌── Resumed ──┐
//	         ▼             │
//	Act ⇄ Wait ──fault──► Stop        Hold ◄─ intent Pause ─► Act
//	  │      │               ▲
//	  │      └─ violation ─► PauseCluster
//	  └─ all done / intent Abort ─► End
type kind string

const (
	// kindAct applies one step.
	kindAct kind = "Act"
	// kindWait does nothing: the cluster has yet to follow.
	kindWait kind = "Wait"
	// kindNudge deletes a new Pod that failed before the operator resumed, so that its repair shows at once.
	kindNudge kind = "Nudge"
	// kindPauseCluster pauses a cluster that changed although nobody asked for it, or that is the management cluster itself.
	kindPauseCluster kind = "PauseCluster"
	// kindReleaseCluster puts back what a Cluster was before the run held it.
	kindReleaseCluster kind = "ReleaseCluster"
	// kindSweep leaves in order what a step has begun, as the run ends before its plan.
	kindSweep kind = "Sweep"
	// kindStop holds the run because of a fault.
	kindStop kind = "Stop"
	// kindHold holds the run because the operator wants it.
	kindHold kind = "Hold"
	// kindEnd ends the run.
	kindEnd kind = "End"
)

const (
	// definiteGrace is how long a cause that waiting will not heal is given all the same: an image may just be on its way
	// to the registry.
	definiteGrace = 20 * time.Second
	// busy, near and idle are how soon the host should look again: at once after a change or when more may be ready, soon
	// while things move, less often when nothing has moved for the time recent.
	busy = 5 * time.Millisecond
	near = 100 * time.Millisecond
	idle = 300 * time.Millisecond
	// recent is how long after a movement the next one is expected.
	recent = 3 * time.Second
	// contested is how often a finished step may be undone by others before the run stops.
	contested = 3
)

// input is all that a decision depends on.
type input struct {
	run      *v1alpha1.Upgrade
	steps    []step.Step
	hold     []world.Ref
	world    *world.World
	fence    fence.Result
	probes   []world.Probe
	now      time.Time
	identity string
}

// decision is what to do next. Its status is written before the act.
type decision struct {
	kind    kind
	step    step.Step
	cleaner step.Cleaner
	cluster world.Ref
	patch   []byte
	pod     world.Ref
	status  v1alpha1.UpgradeStatus
	write   bool
	after   time.Duration
	events  []event.Event
}

// decide chooses one thing to do. It is pure.
func decide(in input) decision {
	j := newJournal(in)
	j.takeOver()
	j.resume()
	j.recordFence()
	switch {
	case in.run.Spec.Intent == v1alpha1.IntentAbort:
		if d, held := j.release(); held {
			return d
		}
		if d, left := j.sweep(); left {
			return d
		}
		return j.abort()
	case len(in.fence.Violations) > 0:
		return j.violated()
	case j.stopped():
		return j.decision(kindStop, 0)
	}
	states := assess(in)
	j.recordSteps(states)
	if in.run.Spec.Intent == v1alpha1.IntentPause {
		return j.hold()
	}
	if states.done() {
		if d, held := j.release(); held {
			return d
		}
		return j.finished()
	}
	if s, found := states.contested(j.status); found {
		return j.stop([]v1alpha1.Stop{contestedStop(s)})
	}
	j.recordWaiting(states)
	if pod, found := states.stale(j.status); found {
		return j.nudge(pod)
	}
	if stops := j.overdue(states); len(stops) > 0 {
		return j.stop(stops)
	}
	if j.opened {
		// What has just become ready was not looked at yet, and may come before what is: an act can take seconds.
		return j.decision(kindWait, busy)
	}
	if s := states.next(); s != nil {
		if d, open := j.holdClusters(); open {
			return d
		}
		return j.act(s)
	}
	return j.decision(kindWait, j.pace())
}

// abandon ends a run by the operator's wish without a look at the world: who wants to end a run may want it because
// nothing can be observed, or because what the run needs is lost.
func abandon(in input) decision {
	j := newJournal(in)
	j.takeOver()
	return j.abort()
}

// state is one step with its progress.
type state struct {
	step     step.Step
	progress step.Progress
	// ready tells that all its needs are done.
	ready bool
}

// states are all steps of a run.
type states []state

// assess asks every step how far it is. A step whose needs are not done yet is never called done, so that the order of
// the plan also holds for what is reported.
func assess(in input) states {
	done := map[string]bool{}
	out := make(states, 0, len(in.steps))
	for _, s := range in.steps {
		ready := !slices.ContainsFunc(s.Needs(), func(n string) bool { return !done[n] })
		st := state{step: s, ready: ready, progress: step.Progress{State: step.Pending}}
		if ready {
			st.progress = s.Progress(in.world)
		}
		done[s.ID()] = ready && st.progress.State == step.Done
		out = append(out, st)
	}
	return out
}

func (ss states) done() bool {
	return !slices.ContainsFunc(ss, func(s state) bool { return s.progress.State != step.Done })
}

// next returns the step that has something to change and the longest way to go behind it, the first one of the plan among
// equals: what starts a controller comes before what only concludes another, and before what nobody waits for.
func (ss states) next() step.Step {
	var next step.Step
	longest, way := 0, ss.way()
	for _, s := range ss {
		if s.ready && s.progress.State == step.Pending && way[s.step.ID()] > longest {
			next, longest = s.step, way[s.step.ID()]
		}
	}
	return next
}

// way returns for each step how many steps the longest chain has that begins with it.
func (ss states) way() map[string]int {
	way := map[string]int{}
	for _, s := range slices.Backward(ss) {
		id := s.step.ID()
		way[id]++
		for _, need := range s.step.Needs() {
			way[need] = max(way[need], way[id])
		}
	}
	return way
}

// contested returns a step that others keep undoing.
func (ss states) contested(st v1alpha1.UpgradeStatus) (state, bool) {
	for _, s := range ss {
		i := slices.IndexFunc(st.Steps, func(r v1alpha1.StepRecord) bool { return r.ID == s.step.ID() })
		if i >= 0 && st.Steps[i].Reopened >= contested && s.progress.State != step.Done {
			return s, true
		}
	}
	return state{}, false
}

// stale returns a Pod that failed before the operator resumed the run and has not been restarted since. The kubelet
// waits up to five minutes before it looks again at an image or a crashed container; an operator who has just repaired
// the cause would delete the Pod by hand.
func (ss states) stale(st v1alpha1.UpgradeStatus) (world.Ref, bool) {
	if st.ResumedAt == nil {
		return world.Ref{}, false
	}
	for _, s := range ss {
		if !s.ready || s.progress.State == step.Done {
			continue
		}
		for _, c := range s.progress.Causes {
			if c.Object.Kind == "Pod" && backsOff(c.Reason) && !c.Made.IsZero() && c.Made.Before(st.ResumedAt.Time) && !nudged(st, c.Object) {
				return c.Object, true
			}
		}
	}
	return world.Ref{}, false
}

func backsOff(reason string) bool {
	switch reason {
	case v1alpha1.StopImageNotFound, v1alpha1.StopCrashing, v1alpha1.StopOutOfMemory:
		return true
	}
	return false
}

func nudged(st v1alpha1.UpgradeStatus, pod world.Ref) bool {
	return slices.ContainsFunc(st.Journal, func(e v1alpha1.JournalEntry) bool { return e.Event == "Nudged" && e.Message == nudgeMessage(pod) })
}

func nudgeMessage(pod world.Ref) string {
	return "Restarting " + pod.String() + ", which failed before the repair"
}

func contestedStop(s state) v1alpha1.Stop {
	return v1alpha1.Stop{
		Reason: v1alpha1.StopContested, Component: s.step.Component(), Step: s.step.ID(),
		Message: fmt.Sprintf("Something undoes the step %s again and again: %s", s.step.ID(), s.progress.Detail),
		Remedy:  "find who changes the object (kubectl get … --show-managed-fields; a GitOps tool or another clusterctl?), stop it, then `capstan resume`",
	}
}

// mark is equal as long as nothing moves.
func (ss states) mark() string {
	h := newHash()
	for _, s := range ss {
		if s.ready {
			h.add(s.step.ID(), string(s.progress.State), s.progress.Mark)
		}
	}
	return h.sum()
}

// waiting lists what the ready steps wait for, definite causes first.
func (ss states) waiting() []v1alpha1.Waiting {
	var out []v1alpha1.Waiting
	for _, s := range ss {
		if !s.ready || s.progress.State == step.Done {
			continue
		}
		for _, c := range s.progress.Causes {
			ref := v1alpha1.ObjectReference(c.Object)
			out = append(out, v1alpha1.Waiting{
				Stop: v1alpha1.Stop{
					Reason: c.Reason, Message: c.Message, Remedy: c.Remedy,
					Component: s.step.Component(), Step: s.step.ID(), Object: &ref,
				},
				Definite: c.Definite,
			})
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.Waiting) int {
		switch {
		case a.Definite == b.Definite:
			return 0
		case a.Definite:
			return -1
		}
		return 1
	})
	return out
}

// standing returns the first ready step that is not done.
func (ss states) standing() (state, bool) {
	for _, s := range ss {
		if s.ready && s.progress.State != step.Done {
			return s, true
		}
	}
	return state{}, false
}
