// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
)

// History shows all runs, newest first.
type History struct {
	// Runs are the runs.
	Runs []v1alpha1.Upgrade
	// Now is the time up to which open runs are measured.
	Now time.Time
	// Next makes the commands to type.
	Next Prompt
}

// HistoryObject is what programs get of a History.
type HistoryObject struct {
	meta
	Runs []HistoryRun `json:"runs"`
}

// HistoryRun is one run of a HistoryObject.
type HistoryRun struct {
	Name        string                     `json:"name"`
	Plan        string                     `json:"plan"`
	RequestedBy string                     `json:"requestedBy,omitempty"`
	From        string                     `json:"from,omitempty"`
	To          string                     `json:"to"`
	Result      Result                     `json:"result"`
	CreatedAt   metav1.Time                `json:"createdAt"`
	StartedAt   *metav1.Time               `json:"startedAt,omitempty"`
	FinishedAt  *metav1.Time               `json:"finishedAt,omitempty"`
	Duration    metav1.Duration            `json:"duration"`
	StepsDone   int                        `json:"stepsDone"`
	Accepted    []v1alpha1.AcceptedFinding `json:"accepted,omitempty"`
	Stops       []v1alpha1.Stop            `json:"stops,omitempty"`
	Fence       *v1alpha1.FenceStatus      `json:"fence,omitempty"`
}

// Object returns the runs for programs.
func (d *History) Object() any {
	out := HistoryObject{meta: meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "History"}, Runs: []HistoryRun{}}
	for i := range d.Runs {
		u := &d.Runs[i]
		out.Runs = append(out.Runs, HistoryRun{
			Name: u.Name, Plan: u.Spec.Plan, RequestedBy: u.Spec.RequestedBy, From: u.Spec.From, To: u.Spec.To, Result: ResultOf(u),
			CreatedAt: u.CreationTimestamp, StartedAt: u.Status.StartedAt, FinishedAt: u.Status.FinishedAt,
			Duration: metav1.Duration{Duration: took(u, d.Now)}, StepsDone: stepsDone(u),
			Accepted: u.Spec.Accepted, Stops: u.Status.Stops, Fence: u.Status.Fence,
		})
	}
	return out
}

// Text returns the screen.
func (d *History) Text(s Style) string {
	if len(d.Runs) == 0 {
		return "No run yet\n" + nextLine(s, d.Next("plan", "RELEASE"))
	}
	last := ResultOf(&d.Runs[0])
	t := newTable("WHEN", "RUN", "WHO", "FROM", "TO", "RESULT", "DURATION", "MACHINES", "PROBES")
	for i := range d.Runs {
		u := &d.Runs[i]
		t.add(moment(u.CreationTimestamp.Time), u.Name, u.Spec.RequestedBy, u.Spec.From, u.Spec.To, string(ResultOf(u)),
			span(took(u, d.Now)), machineProof(u.Status.Fence), probeProof(u.Status.Fence))
		for _, a := range u.Spec.Accepted {
			t.note(fmt.Sprintf("accepted %s: %s", a.ID, a.Reason))
		}
		for _, st := range u.Status.Stops {
			t.note(fmt.Sprintf("stopped by %s: %s", st.Reason, st.Message))
		}
	}
	return fmt.Sprintf("%s, the last one %s\n\n%s", phrase.Count(len(d.Runs), "run"), last.Word(), t) + nextLine(s, d.next(last))
}

func (d *History) next(last Result) string {
	switch last {
	case ResultStopped, ResultPaused:
		return d.Next("resume")
	default:
		return d.Next("status")
	}
}

// machineProof says how many Machines are unchanged: "6 of 6 unchanged".
func machineProof(f *v1alpha1.FenceStatus) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d unchanged", f.Unchanged, f.Machines)
}

// probeProof sums the probes: "120, 0 failed".
func probeProof(f *v1alpha1.FenceStatus) string {
	if f == nil || len(f.Probes) == 0 {
		return ""
	}
	total, failed := probeCounts(f)
	return fmt.Sprintf("%d, %d failed", total, failed)
}

func probeCounts(f *v1alpha1.FenceStatus) (total, failed int64) {
	for _, p := range f.Probes {
		total += p.Total
		failed += p.Failed
	}
	return total, failed
}
