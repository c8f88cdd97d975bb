// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Plan shows a plan.
type Plan struct {
	// Name is the name that the plan has once it is stored.
	Name string
	// Spec is the plan.
	Spec *v1alpha1.PlanSpec
	// Blocking are the findings that keep it from being run.
	Blocking []v1alpha1.Finding
	// Refusal says why else it would be refused, empty if it would not.
	Refusal string
	// Goes is the open run that an upgrade to this release goes on with, nil if there is none.
	Goes *v1alpha1.Upgrade
	// Accepted are the findings that the reader accepted.
	Accepted []v1alpha1.AcceptedFinding
	// Next is the command to type next.
	Next string
}

// Object returns the plan as the API's kind.
func (d *Plan) Object() any {
	return &v1alpha1.Plan{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Plan"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Name},
		Spec:       *d.Spec,
	}
}

// Text returns the screen: assessment first, the next command last.
func (d *Plan) Text(s Style) string {
	var b strings.Builder
	b.WriteString(d.assessment(s) + "\n")
	b.WriteString(d.target() + "\n\n")
	b.WriteString(d.components())
	b.WriteString(d.hazards())
	b.WriteString(d.findings(s))
	if len(d.Spec.Steps) > 0 {
		b.WriteString(d.forecast())
	}
	b.WriteString(nextLine(s, d.Next))
	return b.String()
}

func (d *Plan) assessment(s Style) string {
	moved, all := len(moves(d.Spec)), len(d.Spec.Components)
	switch {
	case len(d.Blocking) > 0:
		return s.bad("Blocked:") + " " + count(len(d.Blocking), "finding")
	case d.Goes != nil:
		return s.warn("Begun:") + fmt.Sprintf(" run %s to this release is %s; an upgrade goes on with it", d.Goes.Name, ResultOf(d.Goes).Word())
	case d.Refusal != "":
		return s.bad("Blocked:") + " " + d.Refusal
	case len(d.Spec.Steps) == 0:
		return s.good("Nothing to do:") + fmt.Sprintf(" all %s are at %s", count(all, "component"), d.Spec.Release.Version)
	}
	return s.good("Ready:") + fmt.Sprintf(" %d of %s move, %s", moved, count(all, "component"), d.machines())
}

func (d *Plan) machines() string {
	switch n := d.Spec.Forecast.MachinesReplaced; n {
	case 0:
		return "no Machine is replaced"
	case 1:
		return "1 Machine is replaced"
	default:
		return fmt.Sprintf("%d Machines are replaced", n)
	}
}

func (d *Plan) target() string {
	base := d.Spec.Base
	line := fmt.Sprintf("Release %s %s", d.Spec.Release.Name, d.Spec.Release.Version)
	if base.PlatformVersion != "" {
		line += ", from " + base.PlatformVersion
	}
	return line + fmt.Sprintf(" · Kubernetes %s · %s, %s", base.KubernetesVersion,
		count(int(base.Clusters), "cluster"), count(int(base.Machines), "Machine"))
}

func (d *Plan) components() string {
	t := newTable("NAME", "TYPE", "FROM", "TO", "ACTION", "STRATEGY")
	for _, c := range d.Spec.Components {
		strategy := ""
		if c.Action == v1alpha1.ActionUpgrade || c.Action == v1alpha1.ActionRepair {
			strategy = string(c.Strategy)
		}
		t.add(c.Name, string(c.Type), c.From, c.To, string(c.Action), strategy)
	}
	return t.String()
}

func (d *Plan) hazards() string {
	var b strings.Builder
	for _, c := range d.Spec.Components {
		for _, h := range c.Hazards {
			if b.Len() == 0 {
				b.WriteString("\nHazards of a rolling swap, and what is done about them\n")
			}
			fmt.Fprintf(&b, "  %s  %s: %s\n      Decision: %s\n", c.Name, h.ID, h.Message, h.Decision)
		}
	}
	return b.String()
}

func (d *Plan) findings(s Style) string {
	var b strings.Builder
	for _, f := range d.Spec.Findings {
		if f.Verdict == v1alpha1.VerdictPass {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\nFindings\n")
		}
		fmt.Fprintf(&b, "  %s  %s  %s\n", verdict(s, f.Verdict), f.ID, f.Summary)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "      To do: %s\n", f.Remedy)
		}
		b.WriteString(d.waiver(f))
	}
	return b.String()
}

// waiver says that a finding is accepted, or how it can be.
func (d *Plan) waiver(f v1alpha1.Finding) string {
	if i := slices.IndexFunc(d.Accepted, func(a v1alpha1.AcceptedFinding) bool { return a.ID == f.ID }); i >= 0 && f.Waivable {
		return "      Accepted: " + d.Accepted[i].Reason + "\n"
	}
	blocks := slices.ContainsFunc(d.Blocking, func(b v1alpha1.Finding) bool { return b.ID == f.ID })
	if !f.Waivable || !blocks {
		return ""
	}
	return fmt.Sprintf("      Or accept it: --accept %s='why it is safe here'\n", f.ID)
}

func verdict(s Style, v v1alpha1.Verdict) string {
	text := strings.ToUpper(string(v))
	if v == v1alpha1.VerdictWarn {
		return s.warn(text)
	}
	return s.bad(text)
}

func (d *Plan) forecast() string {
	var b strings.Builder
	f := d.Spec.Forecast
	fmt.Fprintf(&b, "\nForecast\n  %s, about %s (%s)\n", count(len(d.Spec.Steps), "step"), span(f.Duration.Duration), f.Basis)
	fmt.Fprintf(&b, "  Machines replaced: %d\n", f.MachinesReplaced)
	if len(f.Gaps) == 0 {
		b.WriteString("  Without a running controller: no component at any time\n")
	}
	for _, g := range f.Gaps {
		fmt.Fprintf(&b, "  Without a running controller for a moment: %s\n", g)
	}
	if d.Spec.PointOfNoReturn == "" {
		b.WriteString("  Point of no return: none, the earlier release can be applied again at any time\n")
		return b.String()
	}
	fmt.Fprintf(&b, "  Point of no return: %s%s\n", d.Spec.PointOfNoReturn, d.noReturn())
	return b.String()
}

func (d *Plan) noReturn() string {
	i := slices.IndexFunc(d.Spec.Steps, func(p v1alpha1.PlannedStep) bool { return p.ID == d.Spec.PointOfNoReturn })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(" (step %d of %d: %s); until then the earlier release can be applied again", i+1, len(d.Spec.Steps), d.Spec.Steps[i].Summary)
}
