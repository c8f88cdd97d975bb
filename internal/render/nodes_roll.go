// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// roll is the plan of a roll, nil for checks only.
func (d *NodePlan) roll() *v1alpha1.PlanSpec {
	if d.Draft.Roll == nil {
		return nil
	}
	return d.Draft.Roll.Spec
}

func (d *NodePlan) rollAssessment(s Style, roll *v1alpha1.PlanSpec) string {
	if len(roll.Pools) == 0 {
		return s.good("Nothing to do:") + fmt.Sprintf(" all pools of %s have image %s", phrase.Count(len(d.Draft.Clusters), "cluster"), roll.Release.Name)
	}
	return s.good("Ready:") + fmt.Sprintf(" %s of %s in %s are rolled to %s", phrase.Count(roll.Forecast.MachinesReplaced, "Machine"),
		phrase.Count(len(roll.Pools), "pool"), phrase.Count(len(d.Draft.Clusters), "cluster"), roll.Release.Name)
}

// rollText says what would be rolled, in which order and how.
func (d *NodePlan) rollText(s Style) string {
	var b strings.Builder
	roll := d.roll()
	if text := contents(d.Draft.Roll.Image); text != "" {
		fmt.Fprintf(&b, "Image %s: %s\n", roll.Release.Name, text)
	}
	b.WriteString((&Plan{Spec: &v1alpha1.PlanSpec{Findings: d.Draft.Findings}, Blocking: d.Blocking, Accepted: d.Accepted}).findings(s))
	if len(roll.Pools) == 0 {
		return b.String()
	}
	t := newTable("CLUSTER", "POOL", "MACHINES", "STRATEGY", "TEMPLATE", "KUBERNETES")
	for i := range roll.Pools {
		p := &roll.Pools[i]
		t.add(p.Cluster, p.Owner.Kind+" "+p.Owner.Name, fmt.Sprint(p.Replicas), string(p.Strategy), route(p.OldTemplate.Name, p.NewTemplate.Name), route(p.FromVersion, p.ToVersion))
		if p.Why != "" {
			t.note(p.Why)
		}
	}
	b.WriteString("\n" + t.String())
	b.WriteString(rollSettings(roll.Pools))
	fmt.Fprintf(&b, "\nForecast\n  %s, about %s (%s)\n  Machines replaced: %d\n", phrase.Count(len(roll.Steps), "step"), span(roll.Forecast.Duration.Duration),
		roll.Forecast.Basis, roll.Forecast.MachinesReplaced)
	b.WriteString("  One Machine at a time in each pool; the next goes only after the one before is back, well, and runs what the image holds\n")
	return b.String()
}

// rollSettings lists what has another value during the roll, each once.
func rollSettings(pools []v1alpha1.PlannedPool) string {
	var b strings.Builder
	seen := map[string]bool{}
	for i := range pools {
		for _, set := range pools[i].Settings {
			line := fmt.Sprintf("  %s: %s is %s during the roll, %s before and after", world.Ref(set.Object), strings.Join(set.Path, "."), set.During, or(set.Before, "absent"))
			if seen[line] {
				continue
			}
			seen[line] = true
			if b.Len() == 0 {
				b.WriteString("\nSettings that the roll changes, and puts back\n")
			}
			b.WriteString(line + "\n")
			if set.Why != "" {
				fmt.Fprintf(&b, "      %s\n", set.Why)
			}
		}
	}
	return b.String()
}

// contents says what is in an image, in one line.
func contents(image *v1alpha1.NodeImage) string {
	if image == nil {
		return ""
	}
	c := image.Spec.Contents
	var parts []string
	for _, p := range []struct{ name, value string }{
		{"", c.OSImage}, {"kernel ", c.KernelVersion}, {"", c.ContainerRuntimeVersion}, {"kubelet ", c.KubeletVersion},
	} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	return strings.Join(parts, " · ")
}
