// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// journalLimit bounds the journal: the oldest entries go first.
const journalLimit = 200

// journal builds the status that goes with a decision.
type journal struct {
	in     input
	status v1alpha1.UpgradeStatus
	write  bool
	events []event.Event
	// opened tells that a step was seen done for the first time, so that others may have become ready.
	opened bool
}

func newJournal(in input) *journal {
	return &journal{in: in, status: *in.run.Status.DeepCopy()}
}

func (j *journal) now() metav1.Time { return metav1.NewTime(j.in.now) }

func (j *journal) log(what, stepID, message string) {
	j.write = true
	j.status.Journal = append(j.status.Journal, v1alpha1.JournalEntry{
		At: j.now(), Event: what, Step: stepID, By: j.in.identity, Message: message,
	})
	if extra := len(j.status.Journal) - journalLimit; extra > 0 {
		j.status.Journal = slices.Clone(j.status.Journal[extra:])
	}
}

func (j *journal) tell(e event.Event) { j.events = append(j.events, e) }

// takeOver notes that this process drives the run now.
func (j *journal) takeOver() {
	from := j.status.Holder
	if from == j.in.identity {
		return
	}
	j.status.Holder = j.in.identity
	j.write = true
	if from == "" {
		return
	}
	j.log("TookOver", "", "Took over from "+from)
	j.tell(event.TookOver{At: j.in.now, From: from})
}

// resume clears a stop once the operator asked to go on.
func (j *journal) resume() {
	if j.status.ObservedResumes >= j.in.run.Spec.Resumes {
		return
	}
	now := j.now()
	j.status.ObservedResumes, j.status.ResumedAt = j.in.run.Spec.Resumes, &now
	j.status.Stops, j.status.Waiting, j.status.LastProgress = nil, nil, nil
	for i := range j.status.Steps {
		j.status.Steps[i].Reopened = 0
	}
	j.condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonInProgress, "Resumed by the operator")
	j.progressing()
	j.log("Resumed", "", "The operator asked to go on")
}

func (j *journal) stopped() bool {
	return apimeta.IsStatusConditionTrue(j.status.Conditions, v1alpha1.ConditionStalled)
}

// recordSteps notes steps that were seen done, and done steps that somebody undid.
func (j *journal) recordSteps(ss states) {
	for _, s := range ss {
		r := j.record(s.step.ID())
		done := s.progress.State == step.Done
		switch {
		case done && r == nil:
			j.status.Steps = append(j.status.Steps, v1alpha1.StepRecord{ID: s.step.ID(), StartedAt: j.now()})
			j.finish(s, ss)
		case done && r.State != v1alpha1.StepDone:
			j.finish(s, ss)
		case !done && s.ready && r != nil && r.State == v1alpha1.StepDone && s.progress.State == step.Pending:
			r.State, r.FinishedAt = v1alpha1.StepStarted, nil
			r.Reopened++
			j.log("Undone", s.step.ID(), s.progress.Detail)
		}
	}
}

func (j *journal) finish(s state, all states) {
	r := j.record(s.step.ID())
	now := j.now()
	r.State, r.FinishedAt = v1alpha1.StepDone, &now
	j.opened = true
	j.log("Done", s.step.ID(), s.progress.Detail)
	done := 0
	for _, o := range all {
		if rec := j.record(o.step.ID()); rec != nil && rec.State == v1alpha1.StepDone {
			done++
		}
	}
	j.tell(event.StepDone{
		At: j.in.now, Step: s.step.ID(), Component: s.step.Component(), Summary: s.step.Summary(),
		Took: j.in.now.Sub(r.StartedAt.Time), Index: done, Total: len(all),
	})
}

func (j *journal) record(id string) *v1alpha1.StepRecord {
	i := slices.IndexFunc(j.status.Steps, func(r v1alpha1.StepRecord) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &j.status.Steps[i]
}

// recordWaiting notes when the world moved last, and what is waited for since when.
func (j *journal) recordWaiting(ss states) {
	if mark := ss.mark(); mark != j.status.ProgressMark || j.status.LastProgress == nil {
		now := j.now()
		j.status.ProgressMark, j.status.LastProgress = mark, &now
		j.write = true
	}
	waiting := ss.waiting()
	for i := range waiting {
		waiting[i].Since = j.now()
		for _, known := range j.status.Waiting {
			if sameStop(known.Stop, waiting[i].Stop) {
				waiting[i].Since = known.Since
			}
		}
	}
	if sameWaiting(j.status.Waiting, waiting) {
		return
	}
	j.status.Waiting = waiting
	j.write = true
	if s, standing := ss.standing(); standing {
		j.tell(event.Waiting{
			At: j.in.now, Step: s.step.ID(), Component: s.step.Component(), Detail: s.progress.Detail,
			Since: j.status.LastProgress.Time, Causes: waiting,
		})
	}
}

// overdue returns why the run has to stop: a definite cause that outlived its grace, or nothing moving for too long.
func (j *journal) overdue(ss states) []v1alpha1.Stop {
	limit := j.in.run.Spec.StallLimit.Duration
	var stops []v1alpha1.Stop
	for _, w := range j.status.Waiting {
		if w.Definite && j.in.now.Sub(w.Since.Time) >= min(definiteGrace, limit) {
			stops = append(stops, w.Stop)
		}
	}
	if len(stops) > 0 || j.in.now.Sub(j.status.LastProgress.Time) < limit {
		return stops
	}
	for _, w := range j.status.Waiting {
		stops = append(stops, w.Stop)
	}
	if s, standing := ss.standing(); standing && len(stops) == 0 {
		stops = append(stops, v1alpha1.Stop{
			Reason: v1alpha1.StopNotReady, Component: s.step.Component(), Step: s.step.ID(),
			Message: fmt.Sprintf("Nothing moved for %s: %s", limit, s.progress.Detail),
			Remedy:  "look at the object that is named, then `capstan resume`",
		})
	}
	return stops
}

// pace is how soon to look again while there is nothing to do but wait.
func (j *journal) pace() time.Duration {
	if p := j.status.LastProgress; p != nil && j.in.now.Sub(p.Time) < recent {
		return near
	}
	return idle
}

// act starts or continues a step.
func (j *journal) act(s step.Step) decision {
	r := j.record(s.ID())
	if r == nil {
		j.status.Steps = append(j.status.Steps, v1alpha1.StepRecord{ID: s.ID(), State: v1alpha1.StepStarted, StartedAt: j.now()})
		r = j.record(s.ID())
	}
	r.Attempts++
	if j.status.StartedAt == nil {
		now := j.now()
		j.status.StartedAt = &now
	}
	if r.Attempts == 1 {
		j.log("Started", s.ID(), s.Summary())
		j.tell(event.StepStarted{At: j.in.now, Step: s.ID(), Component: s.Component(), Summary: s.Summary(), Attempt: r.Attempts})
	}
	j.write = true
	j.progressing()
	d := j.decision(kindAct, busy)
	d.step = s
	return d
}

// sweep leaves in order what steps have begun, one a tick; left is false when nothing is left to do.
func (j *journal) sweep() (d decision, left bool) {
	for _, s := range j.in.steps {
		c, ok := s.(step.Cleaner)
		if !ok {
			continue
		}
		switch p := c.Clean(j.in.world); p.State {
		case step.Pending:
			j.log("Swept", s.ID(), p.Detail)
			d := j.decision(kindSweep, busy)
			d.cleaner = c
			return d, true
		case step.Waiting, step.Done:
		}
	}
	return decision{}, false
}

// nudge restarts a Pod that failed before the repair.
func (j *journal) nudge(pod world.Ref) decision {
	j.log("Nudged", "", nudgeMessage(pod))
	d := j.decision(kindNudge, busy)
	d.pod = pod
	return d
}

// finished ends the run, but only on a view of the fleet that is no older than the last step: the proof covers all of it.
func (j *journal) finished() decision {
	last := time.Time{}
	for _, r := range j.status.Steps {
		if r.FinishedAt != nil && r.FinishedAt.After(last) {
			last = r.FinishedAt.Time
		}
	}
	w := j.in.world
	if w.FleetError == "" && !w.FleetAt.Before(last) {
		return j.end(v1alpha1.ReasonCompleted, "Every component is at its target")
	}
	if w.FleetError == "" {
		return j.decision(kindWait, busy)
	}
	since := last
	if r := j.status.ResumedAt; r != nil && r.After(last) {
		since = r.Time
	}
	if j.in.now.Sub(since) >= j.in.run.Spec.StallLimit.Duration {
		return j.stop([]v1alpha1.Stop{{
			Reason: v1alpha1.StopWebhookSilent, Message: "The fleet can't be read, so nothing proves that it was left alone: " + w.FleetError,
			Remedy: "look at the conversion webhook or the kind that is named, then `capstan resume`",
		}})
	}
	return j.decision(kindWait, idle)
}

// stop holds the run and says why.
func (j *journal) stop(stops []v1alpha1.Stop) decision {
	j.status.Stops = stops
	first := stops[0]
	j.condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, first.Reason, first.Message)
	j.condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonStopped, first.Message)
	j.condition(v1alpha1.ConditionSucceeded, metav1.ConditionFalse, v1alpha1.ReasonStopped, first.Message)
	j.log("Stopped", first.Step, first.Message)
	j.tell(event.Stopped{At: j.in.now, Stops: stops})
	return j.decision(kindStop, 0)
}

func (j *journal) hold() decision {
	if j.condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonPaused, "Paused by the operator") {
		j.log("Paused", "", "Paused by the operator")
	}
	return j.decision(kindHold, 0)
}

func (j *journal) abort() decision {
	return j.end(v1alpha1.ReasonAborted, "Ended by the operator; what is done stays done")
}

func (j *journal) end(reason, message string) decision {
	succeeded := metav1.ConditionFalse
	if reason == v1alpha1.ReasonCompleted {
		succeeded = metav1.ConditionTrue
	}
	now := j.now()
	j.status.FinishedAt, j.status.Waiting, j.status.Stops = &now, nil, nil
	j.condition(v1alpha1.ConditionSucceeded, succeeded, reason, message)
	j.condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, reason, message)
	j.condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, reason, message)
	j.log("Ended", "", message)
	j.tell(event.Ended{At: j.in.now, Reason: reason})
	return j.decision(kindEnd, 0)
}

func (j *journal) progressing() {
	j.condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonInProgress, "The run goes on")
	j.condition(v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonInProgress, "The run goes on")
}

// condition sets a condition and tells whether that changed anything.
func (j *journal) condition(t string, s metav1.ConditionStatus, reason, message string) bool {
	changed := apimeta.SetStatusCondition(&j.status.Conditions, metav1.Condition{
		Type: t, Status: s, Reason: reason, Message: message,
		ObservedGeneration: j.in.run.Generation, LastTransitionTime: j.now(),
	})
	j.write = j.write || changed
	return changed
}

func (j *journal) decision(k kind, after time.Duration) decision {
	return decision{kind: k, status: j.status, write: j.write, after: after, events: j.events}
}

func sameStop(a, b v1alpha1.Stop) bool {
	return a.Reason == b.Reason && a.Step == b.Step && a.Object != nil && b.Object != nil && *a.Object == *b.Object
}

func sameWaiting(a, b []v1alpha1.Waiting) bool {
	return slices.EqualFunc(a, b, func(x, y v1alpha1.Waiting) bool {
		return sameStop(x.Stop, y.Stop) && x.Message == y.Message && x.Definite == y.Definite
	})
}

// hash sums strings so that their borders count.
type hash struct{ parts []string }

func newHash() *hash { return &hash{} }

func (h *hash) add(parts ...string) { h.parts = append(h.parts, parts...) }

func (h *hash) sum() string {
	s := sha256.New()
	for _, p := range h.parts {
		fmt.Fprintf(s, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(s.Sum(nil))[:16]
}
