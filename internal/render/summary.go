// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
)

// Summary says what an upgrade came to.
type Summary struct {
	// Run is the run, nil if there was no need for one.
	Run *v1alpha1.Upgrade
	// Plan is its plan.
	Plan *v1alpha1.PlanSpec
	// Now is the time up to which an open run is measured.
	Now time.Time
	// Next is the command to type next.
	Next string
}

// SummaryObject is what programs get of a Summary.
type SummaryObject struct {
	meta
	Result     Result          `json:"result"`
	From       string          `json:"from,omitempty"`
	To         string          `json:"to"`
	Duration   metav1.Duration `json:"duration"`
	Components []Moved         `json:"components"`
	// Pools are what a roll of nodes replaced Machines of.
	Pools    []Rolled      `json:"pools,omitempty"`
	Machines *MachineProof `json:"machines,omitempty"`
	Probes   []Probe       `json:"probes,omitempty"`
	// ControllerGaps are the components that were without a running controller; none where all were rolled.
	ControllerGaps []ControllerGap   `json:"controllerGaps,omitempty"`
	Stops          []v1alpha1.Stop   `json:"stops,omitempty"`
	Next           string            `json:"next"`
	Run            *v1alpha1.Upgrade `json:"run,omitempty"`
}

// Moved is one component with what happened to it.
type Moved struct {
	Name   string          `json:"name"`
	From   string          `json:"from,omitempty"`
	To     string          `json:"to"`
	Action v1alpha1.Action `json:"action"`
	// Done tells that all its steps were seen done.
	Done bool `json:"done"`
}

// MachineProof is the fence's count.
type MachineProof struct {
	Total      int32    `json:"total"`
	Unchanged  int32    `json:"unchanged"`
	Violations []string `json:"violations,omitempty"`
	Expected   []string `json:"expected,omitempty"`
}

// Object returns the summary for programs.
func (d *Summary) Object() any {
	out := SummaryObject{
		meta:   meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "UpgradeResult"},
		Result: d.result(), From: d.Plan.Base.PlatformVersion, To: d.Plan.Release.Version, Components: d.moved(), Pools: d.rolled(), Next: d.Next,
	}
	if d.Run == nil {
		return out
	}
	run := d.Run.DeepCopy()
	run.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Upgrade"}
	run.ManagedFields = nil
	out.Run, out.From, out.Duration.Duration = run, run.Spec.From, took(run, d.Now)
	out.Probes, out.ControllerGaps, out.Stops = probesOf(run, d.Plan), controllerGaps(run, d.Plan, d.Now), run.Status.Stops
	if f := run.Status.Fence; f != nil {
		out.Machines = &MachineProof{Total: f.Machines, Unchanged: f.Unchanged, Violations: f.Violations, Expected: f.Expected}
	}
	return out
}

func (d *Summary) result() Result {
	if d.Run == nil {
		return ResultNothingToDo
	}
	return ResultOf(d.Run)
}

func (d *Summary) moved() []Moved {
	out := []Moved{}
	for _, c := range d.Plan.Components {
		out = append(out, Moved{Name: c.Name, From: c.From, To: c.To, Action: c.Action, Done: d.done(c)})
	}
	return out
}

func (d *Summary) done(c v1alpha1.PlannedComponent) bool { return d.stepsDone(c.Name) }

// stepsDone tells that all steps of a component, or of a pool, were seen done.
func (d *Summary) stepsDone(component string) bool {
	for _, st := range d.Plan.Steps {
		if st.Component != component {
			continue
		}
		if d.Run == nil {
			return false
		}
		if r := record(d.Run, st.ID); r == nil || r.State != v1alpha1.StepDone {
			return false
		}
	}
	return true
}

// Text returns the screen.
func (d *Summary) Text(s Style) string {
	var b strings.Builder
	b.WriteString(d.assessment(s))
	if d.Run == nil {
		return b.String() + nextLine(s, d.Next)
	}
	b.WriteString("\n")
	if d.Plan.Kind == v1alpha1.PlanNodes {
		b.WriteString(d.pools())
		b.WriteString("\n")
		b.WriteString(d.probes())
	} else {
		b.WriteString(d.components())
		b.WriteString("\n")
		b.WriteString(d.machines())
		b.WriteString(d.probes())
		b.WriteString(d.controllers())
	}
	fmt.Fprintf(&b, "Run: %s\n", d.Run.Name)
	b.WriteString(nextLine(s, d.Next))
	return b.String()
}

func (d *Summary) assessment(s Style) string {
	to := d.Plan.Release.Version
	if d.Plan.Kind == v1alpha1.PlanNodes {
		return d.rollAssessment(s)
	}
	if d.Run == nil {
		return s.good("Already at "+to+", nothing to do") + fmt.Sprintf(": all %s are at their target\n", phrase.Count(len(d.Plan.Components), "component"))
	}
	done, all := 0, moves(d.Plan)
	for _, c := range all {
		if d.done(c) {
			done++
		}
	}
	length := span(took(d.Run, d.Now))
	switch r := ResultOf(d.Run); r {
	case ResultCompleted:
		return s.good("Done:") + fmt.Sprintf(" at %s after %s, %s moved\n", to, length, phrase.Count(done, "component"))
	default:
		return s.warn(string(r)+":") + fmt.Sprintf(" %d of %s moved to %s, after %s\n", done, phrase.Count(len(all), "component"), to, length)
	}
}

func (d *Summary) components() string {
	t := newTable("COMPONENT", "FROM → TO", "ACTION", "STATE")
	for _, c := range d.Plan.Components {
		state := "done"
		switch {
		case c.Action == v1alpha1.ActionNone:
			state = "was at its target"
		case !d.done(c):
			state = "not finished"
		}
		t.add(c.Name, route(c.From, c.To), string(c.Action), state)
	}
	return t.String()
}

func (d *Summary) machines() string {
	f := d.Run.Status.Fence
	if f == nil {
		return "Machines unchanged: not judged\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Machines unchanged: %d of %d\n", f.Unchanged, f.Machines)
	for _, v := range f.Violations {
		fmt.Fprintf(&b, "  not asked for: %s\n", v)
	}
	for _, e := range f.Expected {
		fmt.Fprintf(&b, "  asked for while the run went on: %s\n", e)
	}
	return b.String()
}

func (d *Summary) probes() string {
	probes := probesOf(d.Run, d.Plan)
	if len(probes) == 0 {
		return "Probes of workload clusters: none\n"
	}
	var b strings.Builder
	total, failed := probeCounts(d.Run.Status.Fence)
	fmt.Fprintf(&b, "Probes of workload clusters: %d calls, %d failed\n", total, failed)
	for _, p := range probes {
		fmt.Fprintf(&b, "  %s: %d calls, %d failed", p.Cluster, p.Total, p.Failed)
		if p.LongestGap.Duration > 0 {
			fmt.Fprintf(&b, ", longest gap %s", span(p.LongestGap.Duration))
		}
		b.WriteString("\n")
		for _, g := range p.Gaps {
			fmt.Fprintf(&b, "    no answer at %s\n", g.Text)
			if len(g.During) > 0 {
				fmt.Fprintf(&b, "      meanwhile: %s\n", strings.Join(g.During, "; "))
			}
		}
	}
	return b.String()
}

func (d *Summary) controllers() string {
	gaps := controllerGaps(d.Run, d.Plan, d.Now)
	if len(gaps) == 0 {
		return "Without a running controller: no component, each was rolled\n"
	}
	var b strings.Builder
	for _, g := range gaps {
		since := "for at most"
		if g.Open {
			since = "still, since"
		}
		fmt.Fprintf(&b, "Without a running controller: %s, %s %s (stopped, then started, as planned)\n", g.Component, since, span(g.AtMost.Duration))
	}
	return b.String()
}
