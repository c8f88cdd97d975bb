// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// Stopped says why a run stopped and what to do.
type Stopped struct {
	// Run is the run.
	Run *v1alpha1.Upgrade
	// Plan is its plan, nil if it is lost.
	Plan *v1alpha1.PlanSpec
	// Next makes the commands to type.
	Next Prompt
}

// Text returns the screen.
func (d *Stopped) Text(s Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on the way to %s: %s\n", s.bad("Stopped"), d.Run.Spec.To, because(d.Run.Status.Stops))
	b.WriteString(stopBlock(s, d.Run.Status.Stops))
	for _, note := range controllerNotes(d.Run, d.Plan) {
		b.WriteString(note + "\n")
	}
	b.WriteString(nextLine(s, d.next()+d.also()))
	return b.String()
}

// Problem returns the stop as an error with its exit code.
func (d *Stopped) Problem() *problem.Error {
	p := &problem.Error{Reason: string(ResultStopped), Message: "Run " + d.Run.Name + " stopped", Object: "Upgrade " + d.Run.Name, Exit: problem.ExitFailed}
	if len(d.Run.Status.Stops) > 0 {
		first := d.Run.Status.Stops[0]
		p.Reason, p.Message, p.Remedy = first.Reason, first.Message, first.Remedy
		if first.Object != nil {
			p.Object = objectName(*first.Object)
		}
	}
	return p
}

// next is the command to type next.
func (d *Stopped) next() string {
	if violated(d.Run.Status.Stops) {
		return d.Next(upgradeWords(d.Run)...)
	}
	return d.Next("resume")
}

// also says when to type it, and what else there is.
func (d *Stopped) also() string {
	if violated(d.Run.Status.Stops) {
		return "   (once the cause is found and the cluster is unpaused), or " + d.Next("abort")
	}
	if d.Run.Spec.Kind == v1alpha1.PlanNodes {
		return "   (once that is repaired), or " + d.Next(upgradeWords(d.Run)...) + " with an image that is right"
	}
	return "   (once that is repaired), or " + d.Next(upgradeWords(d.Run)...) + " with a corrected release"
}

// upgradeWords are the words of the command that starts a run of the same kind.
func upgradeWords(run *v1alpha1.Upgrade) []string {
	if run.Spec.Kind == v1alpha1.PlanNodes {
		return []string{"nodes", "upgrade", "IMAGE"}
	}
	return []string{"upgrade", "RELEASE"}
}

func violated(stops []v1alpha1.Stop) bool {
	return slices.ContainsFunc(stops, func(st v1alpha1.Stop) bool { return st.Reason == v1alpha1.StopFenceViolated })
}

// because names the causes of stops in one line.
func because(stops []v1alpha1.Stop) string {
	var parts []string
	for _, st := range stops {
		part := st.Reason
		if st.Component != "" {
			part = st.Component + ": " + st.Reason
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return or(strings.Join(parts, ", "), "the cause is not recorded")
}

func stopBlock(s Style, stops []v1alpha1.Stop) string {
	var b strings.Builder
	for _, st := range stops {
		fmt.Fprintf(&b, "\n  %s  %s\n", s.bad(st.Reason), or(st.Component, "the fleet"))
		fmt.Fprintf(&b, "    %s\n", st.Message)
		if st.Remedy != "" {
			fmt.Fprintf(&b, "    To do:   %s\n", st.Remedy)
		}
		if st.Object != nil {
			fmt.Fprintf(&b, "    Look at: %s\n", objectName(*st.Object))
		}
		if st.Step != "" {
			fmt.Fprintf(&b, "    Step:    %s\n", st.Step)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// objectName returns "Kind namespace/name", or "Kind name".
func objectName(o v1alpha1.ObjectReference) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// controllerNotes say which controllers run while a run is stopped: for each stopped component, and for all others at once.
func controllerNotes(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec) []string {
	var out []string
	for _, st := range run.Status.Stops {
		c := planned(spec, st.Component)
		if c == nil {
			continue
		}
		if note := controllerNote(run, spec, c); !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	if f := run.Status.Fence; f != nil && len(f.Paused) > 0 {
		out = append(out, "Paused to protect their Machines: "+strings.Join(f.Paused, ", "))
	}
	if violated(run.Status.Stops) {
		return append(out, "The run starts nothing more; what is done stays done.")
	}
	return append(out, "The run starts nothing more; what is done stays done, and it goes on from there.")
}

func controllerNote(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec, c *v1alpha1.PlannedComponent) string {
	swapped := false
	if swap := stepOf(spec, c.Name, "swap"); swap != nil {
		r := record(run, swap.ID)
		swapped = r != nil && r.State == v1alpha1.StepDone
	}
	switch stop := stepOf(spec, c.Name, "stop"); {
	case swapped:
		return fmt.Sprintf("The new controllers of %s run; the old ones are gone.", c.Name)
	case c.Action == v1alpha1.ActionInstall:
		return fmt.Sprintf("%s was not installed before, so no old controllers of it run.", c.Name)
	case c.Strategy == v1alpha1.StrategyStopThenStart && stop != nil && record(run, stop.ID) != nil:
		return fmt.Sprintf("%s has no running controller: its old ones were stopped before the new ones start, as planned.", c.Name)
	}
	return fmt.Sprintf("The old controllers of %s still run: none is removed before its successor is ready.", c.Name)
}
