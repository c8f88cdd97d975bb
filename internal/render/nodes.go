// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/phrase"
)

// NodePlan shows whether nodes could be rolled, and how.
type NodePlan struct {
	// Draft is the answer.
	Draft *operation.NodeDraft
	// Blocking are the findings that speak against it.
	Blocking []v1alpha1.Finding
	// Accepted are the findings that the reader accepted.
	Accepted []v1alpha1.AcceptedFinding
	// Next is the command to type next.
	Next string
}

// NodePlanObject is what programs get of a NodePlan.
type NodePlanObject struct {
	meta
	// Image is what is rolled to, empty for checks only.
	Image         string             `json:"image,omitempty"`
	Version       string             `json:"version,omitempty"`
	ControlPlanes bool               `json:"withControlPlane"`
	Blocked       bool               `json:"blocked"`
	Clusters      []string           `json:"clusters"`
	Stages        []NodeStageObject  `json:"stages"`
	Findings      []v1alpha1.Finding `json:"findings"`
	// Plan is what a roll would do; none for checks only.
	Plan *v1alpha1.PlanSpec `json:"plan,omitempty"`
	Next string             `json:"next"`
}

// NodeStageObject is what may move at the same time.
type NodeStageObject struct {
	Name  string           `json:"name"`
	Moves []NodeMoveObject `json:"moves"`
}

// NodeMoveObject is one owner of Machines that would replace them.
type NodeMoveObject struct {
	Cluster  string                   `json:"cluster"`
	Object   v1alpha1.ObjectReference `json:"object"`
	From     string                   `json:"from,omitempty"`
	To       string                   `json:"to,omitempty"`
	Machines int64                    `json:"machines"`
}

// Object returns the plan for programs.
func (d *NodePlan) Object() any {
	out := NodePlanObject{
		meta: meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodePlan"}, Version: d.Draft.Ask.Version, ControlPlanes: d.Draft.Ask.ControlPlanes,
		Blocked: len(d.Blocking) > 0, Clusters: d.Draft.Clusters, Stages: []NodeStageObject{}, Findings: d.Draft.Findings, Next: d.Next,
	}
	if out.Clusters == nil {
		out.Clusters = []string{}
	}
	if out.Findings == nil {
		out.Findings = []v1alpha1.Finding{}
	}
	if roll := d.roll(); roll != nil {
		out.Image, out.Plan = roll.Release.Name, roll
	}
	for _, st := range d.Draft.Stages {
		so := NodeStageObject{Name: st.Name}
		for _, m := range st.Moves {
			so.Moves = append(so.Moves, NodeMoveObject{Cluster: m.Cluster, Object: v1alpha1.ObjectReference(m.Object), From: m.From, To: m.To, Machines: m.Machines})
		}
		out.Stages = append(out.Stages, so)
	}
	return out
}

// Text returns the screen: assessment first, the next command last.
func (d *NodePlan) Text(s Style) string {
	var b strings.Builder
	b.WriteString(d.assessment(s) + "\n")
	if d.roll() != nil {
		b.WriteString(d.rollText(s))
		b.WriteString(nextLine(s, d.Next))
		return b.String()
	}
	b.WriteString("These are checks only, and nothing was changed: name an IMAGE to see how it would be rolled\n")
	for i, st := range d.Draft.Stages {
		fmt.Fprintf(&b, "\nStage %d of %d: %s\n", i+1, len(d.Draft.Stages), st.Name)
		t := newTable("CLUSTER", "KIND", "NAME", "FROM", "TO", "MACHINES")
		for _, m := range st.Moves {
			t.add(m.Cluster, m.Object.Kind, m.Object.Name, m.From, m.To, fmt.Sprint(m.Machines))
		}
		b.WriteString(t.String())
	}
	b.WriteString((&Plan{Spec: &v1alpha1.PlanSpec{Findings: d.Draft.Findings}, Blocking: d.Blocking, Accepted: d.Accepted}).findings(s))
	b.WriteString(nextLine(s, d.Next))
	return b.String()
}

func (d *NodePlan) assessment(s Style) string {
	where := phrase.Count(len(d.Draft.Clusters), "cluster")
	owners, machines := 0, int64(0)
	for _, st := range d.Draft.Stages {
		owners += len(st.Moves)
		for _, m := range st.Moves {
			machines += m.Machines
		}
	}
	to := ""
	if v := d.Draft.Ask.Version; v != "" {
		to = " to " + v
	}
	if roll := d.roll(); roll != nil && len(d.Blocking) == 0 {
		return d.rollAssessment(s, roll)
	}
	switch {
	case len(d.Blocking) > 0:
		return s.bad("Blocked:") + " " + phrase.Count(len(d.Blocking), "finding") + " against rolling nodes" + to
	case owners == 0 && d.Draft.Ask.Version != "":
		return s.good("Nothing to do:") + fmt.Sprintf(" all of %s is at %s", where, d.Draft.Ask.Version)
	case owners == 0:
		return s.good("Nothing to do:") + fmt.Sprintf(" no pool in %s", where)
	}
	return s.good("Possible:") + fmt.Sprintf(" %s of %s in %s could be rolled%s", phrase.Count(int(machines), "Machine"), phrase.Count(owners, "owner"), where, to)
}
