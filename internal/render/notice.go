// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// Notice confirms a small request.
type Notice struct {
	// Message is what was done.
	Message string
	// Run is the name of the run concerned.
	Run string
	// Next is the command to type next.
	Next string
}

// Object returns the notice for programs.
func (d *Notice) Object() any {
	return struct {
		meta
		Run     string `json:"run,omitempty"`
		Message string `json:"message"`
		Next    string `json:"next"`
	}{meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Notice"}, d.Run, d.Message, d.Next}
}

// Text returns the screen.
func (d *Notice) Text(s Style) string { return d.Message + "\n" + nextLine(s, d.Next) }

// Version shows which Capstan this is.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Object returns the version for programs.
func (d *Version) Object() any {
	return struct {
		meta
		*Version
	}{meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Version"}, d}
}

// Text returns the screen.
func (d *Version) Text(Style) string {
	line := fmt.Sprintf("capstan %s (%s, %s", d.Version, d.Go, d.Platform)
	if d.Revision != "" {
		line += ", " + d.Revision
	}
	return line + ")\n"
}

// Explanation says what checks mean.
type Explanation struct {
	Checks []ExplainedCheck
	// Next is the command to type next.
	Next string
}

// ExplainedCheck is one check.
type ExplainedCheck struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Doc      string   `json:"doc"`
	Fix      string   `json:"fix,omitempty"`
	Sources  []string `json:"sources,omitempty"`
	Waivable bool     `json:"waivable"`
}

// Object returns the checks for programs.
func (d *Explanation) Object() any {
	return struct {
		meta
		Checks []ExplainedCheck `json:"checks"`
	}{meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Explanation"}, d.Checks}
}

// Text returns the screen.
func (d *Explanation) Text(s Style) string {
	var b strings.Builder
	for i, c := range d.Checks {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.strong(c.ID) + "  " + c.Title + "\n")
		for _, text := range []string{c.Doc, c.Fix} {
			for _, line := range wrap(text, 96) {
				b.WriteString("  " + line + "\n")
			}
		}
		for _, source := range c.Sources {
			b.WriteString("  Source: " + source + "\n")
		}
		if c.Waivable {
			fmt.Fprintf(&b, "  It can be accepted: --accept %s='why it is safe here'\n", c.ID)
			continue
		}
		b.WriteString("  It can't be accepted: it has to be repaired.\n")
	}
	b.WriteString(nextLine(s, d.Next))
	return b.String()
}

// Fault writes an error for people: what, where, and what to do.
func Fault(s Style, p *problem.Error) string {
	var b strings.Builder
	if p.Exit == problem.ExitInterrupted { // no error: it is what was wanted
		fmt.Fprintf(&b, "%s\n", p.Message)
	} else {
		fmt.Fprintf(&b, "%s %s\n", s.bad("Error:"), p.Message)
	}
	if p.Object != "" && p.Exit != problem.ExitInterrupted && !strings.Contains(p.Message, p.Object) && !strings.HasPrefix(p.Where, p.Object) {
		fmt.Fprintf(&b, "  About: %s\n", p.Object)
	}
	if p.Where != "" {
		fmt.Fprintf(&b, "  Where: %s\n", p.Where)
	}
	if p.Remedy != "" {
		fmt.Fprintf(&b, "  To do: %s\n", p.Remedy)
	}
	return b.String()
}

// FaultObject is what programs get of an error.
type FaultObject struct {
	Error *problem.Error `json:"error"`
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
