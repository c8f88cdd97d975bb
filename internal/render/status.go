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
	"github.com/capstan-dev/capstan/internal/world"
)

// State is what a management cluster is doing.
type State string

const (
	// StateIdle means that no run is open.
	StateIdle State = "Idle"
	// StateMoving means that a process drives a run.
	StateMoving State = "Moving"
	// StateStandingStill means that a run is open, and no process drives it.
	StateStandingStill State = "StandingStill"
	// StatePaused means that the operator holds a run.
	StatePaused State = "Paused"
	// StateStopped means that a fault stopped a run.
	StateStopped State = "Stopped"
)

// Status shows what is installed, what runs, and what is wrong.
type Status struct {
	// World is the management cluster, nil if it could not be observed.
	World *world.World
	// WorldError says why it could not.
	WorldError string
	// PlatformVersion is the release that was last completed, empty if none was.
	PlatformVersion string
	// Open is the run that has not ended, nil if there is none.
	Open *v1alpha1.Upgrade
	// Plan is the plan of Open, nil if there is none.
	Plan *v1alpha1.PlanSpec
	// Last is the newest ended run, nil if there is none.
	Last *v1alpha1.Upgrade
	// Nodes are the nodes of workload clusters, nil if nobody looked.
	Nodes *Nodes
	// Driver is the process that drives Open, empty if none does.
	Driver string
	// Now is when this was put together.
	Now time.Time
	// Next makes the commands to type.
	Next Prompt
}

// State derives what the management cluster is doing.
func (d *Status) State() State {
	if d.Open == nil {
		return StateIdle
	}
	switch ResultOf(d.Open) {
	case ResultStopped, ResultFenceViolated:
		return StateStopped
	case ResultPaused:
		return StatePaused
	default:
	}
	if d.Driver == "" {
		return StateStandingStill
	}
	return StateMoving
}

// Summary is the state in one line.
func (d *Status) Summary() string {
	switch d.State() {
	case StateIdle:
		return d.idle()
	case StateStopped:
		return fmt.Sprintf("Stopped on the way to %s, %s: %s", d.Open.Spec.To, d.progress(), because(d.Open.Status.Stops))
	case StatePaused:
		return fmt.Sprintf("Paused on the way to %s, %s", d.Open.Spec.To, d.progress())
	case StateStandingStill:
		return fmt.Sprintf("Standing still on the way to %s, %s: no process drives the run", d.Open.Spec.To, d.progress())
	case StateMoving:
	}
	return fmt.Sprintf("Moving to %s, %s, %s", d.Open.Spec.To, d.progress(), span(took(d.Open, d.Now)))
}

func (d *Status) idle() string {
	at := "no release was completed here by Capstan yet"
	if d.PlatformVersion != "" {
		at = "the last completed release is " + d.PlatformVersion
	}
	switch {
	case d.between():
		return fmt.Sprintf("Idle, part-way: run %s to %s was %s; %s", d.Last.Name, d.Last.Spec.To, ResultOf(d.Last).Word(), at)
	case d.PlatformVersion != "":
		return "Idle at " + d.PlatformVersion
	}
	return "Idle: " + at
}

// between tells that the last run ended before its target, so that components may be at versions of either side.
func (d *Status) between() bool { return d.Last != nil && ResultOf(d.Last) != ResultCompleted }

func (d *Status) progress() string {
	if d.Plan == nil {
		return phrase.Count(stepsDone(d.Open), "step") + " done"
	}
	return fmt.Sprintf("%d of %s done", stepsDone(d.Open), phrase.Count(len(d.Plan.Steps), "step"))
}

func (d *Status) next() string {
	switch d.State() {
	case StateIdle:
		return d.Next("plan", "RELEASE")
	case StateStopped:
		return d.stopped().next()
	case StatePaused, StateStandingStill:
		return d.Next("resume")
	case StateMoving:
	}
	return d.Next("status", "-w")
}

// also says when to type the next command, where that is not at once.
func (d *Status) also() string {
	if d.State() != StateStopped {
		return ""
	}
	return d.stopped().also()
}

func (d *Status) stopped() *Stopped { return &Stopped{Run: d.Open, Plan: d.Plan, Next: d.Next} }

// Text returns the screen.
func (d *Status) Text(s Style) string {
	var b strings.Builder
	b.WriteString(d.headline(s) + "\n")
	if d.Open != nil {
		b.WriteString(d.run(s))
	}
	b.WriteString(d.management(s))
	b.WriteString(d.Nodes.text(s))
	if d.Open == nil && d.Last != nil {
		fmt.Fprintf(&b, "\nLast run: %s to %s, %s after %s\n", d.Last.Name, d.Last.Spec.To, ResultOf(d.Last).Word(), span(took(d.Last, d.Now)))
	}
	b.WriteString(nextLine(s, d.next()+d.also()))
	return b.String()
}

func (d *Status) headline(s Style) string {
	switch d.State() {
	case StateStopped:
		return s.bad(d.Summary())
	case StatePaused, StateStandingStill:
		return s.warn(d.Summary())
	case StateIdle:
		if d.between() {
			return s.warn(d.Summary())
		}
	case StateMoving:
	}
	return s.good(d.Summary())
}

func (d *Status) run(s Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Run %s, from %s, by %s", d.Open.Name, or(d.Open.Spec.From, "nothing"), or(d.Open.Spec.RequestedBy, "unknown"))
	if d.Driver != "" {
		b.WriteString(", driven by " + d.Driver)
	}
	b.WriteString("\n")
	if d.State() == StateStopped {
		b.WriteString(stopBlock(s, d.Open.Status.Stops))
		b.WriteString(strings.Join(controllerNotes(d.Open, d.Plan), "\n") + "\n")
	} else {
		b.WriteString(d.steps())
	}
	if f := d.Open.Status.Fence; f != nil {
		fmt.Fprintf(&b, "Machines unchanged so far: %d of %d; probes: %s\n", f.Unchanged, f.Machines, or(probeProof(f), "none"))
	}
	return b.String()
}

// steps lists what goes on and what it waits for.
func (d *Status) steps() string {
	var b strings.Builder
	for _, st := range d.current() {
		fmt.Fprintf(&b, "Now: %s, for %s\n", st.Summary, span(d.Now.Sub(st.Since.Time)))
	}
	for _, w := range d.Open.Status.Waiting {
		fmt.Fprintf(&b, "Waits for %s, for %s: %s\n", w.Component, span(d.Now.Sub(w.Since.Time)), w.Message)
		if w.Definite && w.Remedy != "" {
			fmt.Fprintf(&b, "  To do: %s\n", w.Remedy)
		}
	}
	return b.String()
}

func (d *Status) current() []StatusStep {
	var out []StatusStep
	for _, r := range d.Open.Status.Steps {
		if r.State == v1alpha1.StepDone {
			continue
		}
		st := StatusStep{ID: r.ID, Summary: r.ID, Since: r.StartedAt, Attempts: r.Attempts}
		if d.Plan != nil {
			for _, p := range d.Plan.Steps {
				if p.ID == r.ID {
					st.Summary, st.Component = p.Summary, p.Component
				}
			}
		}
		out = append(out, st)
	}
	return out
}

func (d *Status) management(s Style) string {
	if d.World == nil {
		return "\n" + s.bad("Not observed:") + " " + d.WorldError + "\n"
	}
	var b strings.Builder
	m := d.World.Management
	clusters, machines := fleetSize(d.World)
	fmt.Fprintf(&b, "Kubernetes %s · %s, %s\n\n", m.KubernetesVersion, phrase.Count(clusters, "cluster"), phrase.Count(machines, "Machine"))
	if d.World.FleetError != "" {
		fmt.Fprintf(&b, "The fleet is as of %s: %s\n\n", moment(d.World.FleetAt), d.World.FleetError)
	}
	t := newTable("NAME", "TYPE", "NAMESPACE", "VERSION")
	for _, p := range m.Providers {
		t.add(p.ManifestLabel, p.Type, p.Namespace, p.Version)
	}
	for _, c := range m.Manifests {
		t.add(c.Name, "manifest", "", c.Version)
	}
	if len(t.rows) == 1 {
		return b.String() + "Nothing that Capstan knows is installed\n"
	}
	return b.String() + t.String()
}

func fleetSize(w *world.World) (clusters, machines int) {
	for i := range w.Clusters {
		machines += len(w.Clusters[i].Machines)
	}
	return len(w.Clusters), machines
}

// StatusStep is a step that has begun and is not done.
type StatusStep struct {
	ID        string      `json:"id"`
	Component string      `json:"component,omitempty"`
	Summary   string      `json:"summary"`
	Since     metav1.Time `json:"since"`
	Attempts  int32       `json:"attempts"`
}
