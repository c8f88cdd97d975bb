// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Result is where a run stands.
type Result string

const (
	// ResultInProgress means that the run has neither ended nor stopped.
	ResultInProgress Result = "InProgress"
	// ResultCompleted means that every component is at its target.
	ResultCompleted Result = "Completed"
	// ResultNothingToDo means that there was no need for a run.
	ResultNothingToDo Result = "NothingToDo"
	// ResultStopped means that a fault stopped the run.
	ResultStopped Result = "Stopped"
	// ResultFenceViolated means that a workload cluster changed although nobody asked for it, which stopped the run.
	ResultFenceViolated Result = "FenceViolated"
	// ResultPaused means that the operator holds the run.
	ResultPaused Result = "Paused"
	// ResultAborted means that the operator ended the run.
	ResultAborted Result = "Aborted"
	// ResultSuperseded means that a later run took over.
	ResultSuperseded Result = "Superseded"
)

// ResultOf tells where a run stands, from its conditions and what is asked of it.
func ResultOf(run *v1alpha1.Upgrade) Result {
	succeeded := apimeta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case run.Status.FinishedAt != nil && succeeded == nil:
		return ResultAborted
	case run.Status.FinishedAt != nil && succeeded.Status == metav1.ConditionTrue:
		return ResultCompleted
	case run.Status.FinishedAt != nil:
		return Result(succeeded.Reason)
	case apimeta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionStalled) && !resumed(run):
		if succeeded != nil && succeeded.Reason == v1alpha1.ReasonFenceViolated {
			return ResultFenceViolated
		}
		return ResultStopped
	case run.Spec.Intent == v1alpha1.IntentPause:
		return ResultPaused
	}
	return ResultInProgress
}

// resumed tells that the operator has asked a stopped run to go on, and it has not looked yet.
func resumed(run *v1alpha1.Upgrade) bool { return run.Spec.Resumes > run.Status.ObservedResumes }

// Word is how a result is said in a sentence.
func (r Result) Word() string {
	switch r {
	case ResultInProgress:
		return "under way"
	case ResultNothingToDo:
		return "nothing to do"
	case ResultFenceViolated:
		return "stopped by the fence"
	case ResultCompleted, ResultStopped, ResultPaused, ResultAborted, ResultSuperseded:
		return strings.ToLower(string(r))
	}
	return string(r)
}

// took is how long a run has taken up to its end, its stop, or now. How long a stop lasts measures people.
func took(run *v1alpha1.Upgrade, now time.Time) time.Duration {
	if run.Status.StartedAt == nil {
		return 0
	}
	if run.Status.FinishedAt != nil {
		now = run.Status.FinishedAt.Time
	}
	stalled := apimeta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && !resumed(run) {
		now = stalled.LastTransitionTime.Time
	}
	return max(0, now.Sub(run.Status.StartedAt.Time))
}

func stepsDone(run *v1alpha1.Upgrade) int {
	n := 0
	for _, s := range run.Status.Steps {
		if s.State == v1alpha1.StepDone {
			n++
		}
	}
	return n
}

func record(run *v1alpha1.Upgrade, id string) *v1alpha1.StepRecord {
	i := slices.IndexFunc(run.Status.Steps, func(r v1alpha1.StepRecord) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &run.Status.Steps[i]
}

// stepOf returns the plan's step of a component whose ID begins with verb.
func stepOf(spec *v1alpha1.PlanSpec, component, verb string) *v1alpha1.PlannedStep {
	for i := range spec.Steps {
		if spec.Steps[i].Component == component && strings.HasPrefix(spec.Steps[i].ID, verb+"/") {
			return &spec.Steps[i]
		}
	}
	return nil
}

func planned(spec *v1alpha1.PlanSpec, component string) *v1alpha1.PlannedComponent {
	if spec == nil {
		return nil
	}
	i := slices.IndexFunc(spec.Components, func(c v1alpha1.PlannedComponent) bool { return c.Name == component })
	if i < 0 {
		return nil
	}
	return &spec.Components[i]
}

// moves returns the components that a plan changes.
func moves(spec *v1alpha1.PlanSpec) []v1alpha1.PlannedComponent {
	var out []v1alpha1.PlannedComponent
	for _, c := range spec.Components {
		if c.Action != v1alpha1.ActionNone {
			out = append(out, c)
		}
	}
	return out
}
