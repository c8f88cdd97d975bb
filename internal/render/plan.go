// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diff"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// folded is how many objects of a long list are shown by name.
const folded = 5

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
	// Diff is what changes in each object, if that was asked for.
	Diff []diff.Entry
	// Noted is what moved since the plan was saved and does not matter.
	Noted []string
	// Next is the command to type next.
	Next string
}

// PlanObject is what programs get of a Plan: the API's kind, and what was asked for beside it.
type PlanObject struct {
	v1alpha1.Plan `json:",inline"`

	// Blocking are the IDs of the findings that keep it from being run, each once.
	Blocking []string `json:"blocking,omitempty"`
	// Diff is what changes in each object; only where it was asked for.
	Diff []diff.Entry `json:"diff,omitempty"`
	// Next is the command to type next.
	Next string `json:"next,omitempty"`
}

// Object returns the plan for programs.
func (d *Plan) Object() any {
	out := &PlanObject{Diff: d.Diff, Next: d.Next, Plan: v1alpha1.Plan{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Plan"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Name},
		Spec:       *d.Spec,
	}}
	for _, f := range d.Blocking {
		if !slices.Contains(out.Blocking, f.ID) {
			out.Blocking = append(out.Blocking, f.ID)
		}
	}
	return out
}

// Text returns the screen: assessment first, then what speaks against it, what changes, what to expect, and the next
// command last.
func (d *Plan) Text(s Style) string {
	var b strings.Builder
	b.WriteString(d.assessment(s) + "\n")
	b.WriteString(d.target() + "\n")
	for _, n := range d.Noted {
		b.WriteString("Since it was saved: " + n + "\n")
	}
	b.WriteString(d.findings(s))
	b.WriteString("\n" + d.components())
	b.WriteString(d.kept())
	b.WriteString(d.removed())
	b.WriteString(d.contracts())
	b.WriteString(d.hazards())
	if len(d.Spec.Steps) > 0 {
		b.WriteString(d.forecast())
	}
	b.WriteString(d.differences(s))
	b.WriteString(nextLine(s, d.Next))
	return b.String()
}

func (d *Plan) assessment(s Style) string {
	moved, all := len(moves(d.Spec)), len(d.Spec.Components)
	switch {
	case len(d.Blocking) == 1:
		return s.bad("Can't start:") + " 1 finding blocks"
	case len(d.Blocking) > 0:
		return s.bad("Can't start:") + fmt.Sprintf(" %d findings block", len(d.Blocking))
	case d.Goes != nil:
		return s.warn("Begun:") + fmt.Sprintf(" run %s to this release is %s; an upgrade goes on with it", d.Goes.Name, ResultOf(d.Goes).Word())
	case d.Refusal != "":
		return s.bad("Can't start:") + " " + d.Refusal
	case len(d.Spec.Steps) == 0:
		return s.good("Nothing to do:") + fmt.Sprintf(" all %s are at %s", phrase.Count(all, "component"), d.Spec.Release.Version)
	}
	return s.good("Ready:") + fmt.Sprintf(" %d of %s move, %s", moved, phrase.Count(all, "component"), d.machines())
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
		phrase.Count(int(base.Clusters), "cluster"), phrase.Count(int(base.Machines), "Machine"))
}

func (d *Plan) components() string {
	t := newTable("NAME", "TYPE", "FROM", "TO", "ACTION", "STRATEGY", "OBJECTS")
	for _, c := range d.Spec.Components {
		strategy, objects := "", ""
		if c.Action == v1alpha1.ActionUpgrade || c.Action == v1alpha1.ActionRepair {
			strategy = string(c.Strategy)
		}
		if c.Action != v1alpha1.ActionNone && c.Objects > 0 {
			objects = fmt.Sprintf("%d of %d change", c.Changes, c.Objects)
		}
		t.add(c.Name, string(c.Type), c.From, c.To, string(c.Action), strategy, objects)
	}
	return t.String()
}

// kept shows the settings that are carried over.
func (d *Plan) kept() string {
	var b strings.Builder
	for _, c := range d.Spec.Components {
		for _, k := range c.Kept {
			if b.Len() == 0 {
				b.WriteString("\nKept, although the release has it otherwise\n")
			}
			fmt.Fprintf(&b, "  %s  %s: %s stays %s (release: %s)\n", c.Name, world.Ref(k.Object), k.Setting, k.Value, k.Release)
		}
	}
	return b.String()
}

// removed shows what is deleted, and what is deleted and made anew.
func (d *Plan) removed() string {
	var b strings.Builder
	for _, c := range d.Spec.Components {
		if len(c.Prune) > 0 {
			fmt.Fprintf(&b, "  %s  removed: %s\n", c.Name, names(c.Prune))
		}
		if len(c.Replace) > 0 {
			fmt.Fprintf(&b, "  %s  deleted and made anew: %s\n", c.Name, names(c.Replace))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nObjects that go\n" + b.String()
}

// names lists objects, the first few by name.
func names(list []v1alpha1.ObjectReference) string {
	var out []string
	for _, r := range list[:min(len(list), folded)] {
		out = append(out, world.Ref(r).String())
	}
	text := strings.Join(out, ", ")
	if more := len(list) - folded; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
		b.WriteString(concerns(f))
		b.WriteString(d.waiver(f))
	}
	return b.String()
}

// concerns names the objects of a finding that its line does not.
func concerns(f v1alpha1.Finding) string {
	if !slices.ContainsFunc(f.Objects, func(r v1alpha1.ObjectReference) bool { return !strings.Contains(f.Summary, r.Name) }) {
		return ""
	}
	if len(f.Objects) > folded && strings.Contains(f.Summary, world.Ref(f.Objects[0]).String()) {
		return "" // it names the first ones and counts the rest
	}
	return "      Objects: " + names(f.Objects) + "\n"
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
	fmt.Fprintf(&b, "\nForecast\n  %s, about %s (%s)\n", phrase.Count(len(d.Spec.Steps), "step"), span(f.Duration.Duration), f.Basis)
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

// differences shows what changes in each object. The text stands alone as a patch does, so that it can be read by tools.
func (d *Plan) differences(s Style) string {
	if len(d.Diff) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nDifferences of %s\n", phrase.Count(len(d.Diff), "object"))
	for _, e := range d.Diff {
		fmt.Fprintf(&b, "\n%s\n", s.strong(fmt.Sprintf("# %s: %s %s", e.Component, strings.ToLower(string(e.Kind)), e.Object)))
		for line := range strings.Lines(e.Text) {
			b.WriteString(patchLine(s, strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	return b.String()
}

func patchLine(s Style, line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return s.good(line)
	case strings.HasPrefix(line, "-"):
		return s.bad(line)
	}
	return line
}

// MovedTitle is the first line of the screen that says that a saved plan can't be run any more.
func MovedTitle(s Style, file string) string {
	return s.bad("Can't start:") + " the management cluster is no longer what the plan in " + file + " was made for"
}

// NextLine is the last line of a screen.
func NextLine(s Style, command string) string { return nextLine(s, command) }
