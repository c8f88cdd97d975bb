// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
)

// Verification shows what was found when nothing was to be changed.
type Verification struct {
	// Run is the run that was completed last, nil if there is none.
	Run *v1alpha1.Upgrade
	// Components, Clusters and Machines is how much was looked at.
	Components, Clusters, Machines int
	// Findings are the results of all checks, Blocking those that need a decision.
	Findings, Blocking []v1alpha1.Finding
	// Accepted are the findings that the reader accepted.
	Accepted []v1alpha1.AcceptedFinding
	// Note says what could not be compared, empty for nothing.
	Note string
	// Next is the command to type next.
	Next string
}

// Object returns the verification for programs.
func (d *Verification) Object() any {
	release, run := "", ""
	if d.Run != nil {
		release, run = d.Run.Spec.To, d.Run.Name
	}
	return struct {
		meta
		Release    string             `json:"release,omitempty"`
		Run        string             `json:"run,omitempty"`
		Verified   bool               `json:"verified"`
		Components int                `json:"components"`
		Clusters   int                `json:"clusters"`
		Machines   int                `json:"machines"`
		Note       string             `json:"note,omitempty"`
		Findings   []v1alpha1.Finding `json:"findings"`
	}{
		meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Verification"},
		release, run, len(d.Blocking) == 0,
		d.Components, d.Clusters, d.Machines, d.Note, append([]v1alpha1.Finding{}, d.Findings...),
	}
}

// Text returns the screen: assessment first, the next command last.
func (d *Verification) Text(s Style) string {
	var b strings.Builder
	switch {
	case len(d.Blocking) > 0:
		fmt.Fprintf(&b, "%s %s\n", s.bad("Needs a decision:"), phrase.Count(len(d.Blocking), "finding"))
	case d.Components == 0:
		b.WriteString(s.good("Verified:") + " nothing would replace a Machine\n")
	default:
		fmt.Fprintf(&b, "%s %s at %s as the run left them and at work, and nothing would replace a Machine\n",
			s.good("Verified:"), phrase.Count(d.Components, "component"), d.Run.Spec.To)
	}
	fmt.Fprintf(&b, "Looked at %s, %s, %s\n", phrase.Count(d.Components, "component"), phrase.Count(d.Clusters, "cluster"), phrase.Count(d.Machines, "Machine"))
	if d.Note != "" {
		b.WriteString("Note: " + d.Note + "\n")
	}
	b.WriteString((&Plan{Spec: &v1alpha1.PlanSpec{Findings: d.Findings}, Blocking: d.Blocking, Accepted: d.Accepted}).findings(s))
	b.WriteString(nextLine(s, d.Next))
	return b.String()
}
