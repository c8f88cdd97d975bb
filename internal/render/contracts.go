// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// contracts shows the matrix of providers and contracts where something is to be said about it; a plan as JSON always has it.
func (d *Plan) contracts() string {
	about := func(f v1alpha1.Finding) bool { return f.ID == "CAP-CONTRACT" && f.Verdict != v1alpha1.VerdictPass }
	if len(d.Spec.Contracts) == 0 || !slices.ContainsFunc(d.Spec.Findings, about) {
		return ""
	}
	var all []string
	for _, p := range d.Spec.Contracts {
		for _, c := range p.Contracts {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	slices.Sort(all)
	t := newTable(append([]string{"PROVIDER", "VERSION"}, append(all, "KNOWN FROM")...)...)
	for _, p := range d.Spec.Contracts {
		row := []string{p.Provider, p.Version}
		for _, c := range all {
			cell := "-"
			switch {
			case slices.Contains(p.Contracts, c):
				cell = "yes"
			case len(p.Contracts) == 0:
				cell = "?"
			}
			row = append(row, cell)
		}
		t.add(append(row, p.Source)...)
	}
	return "\nContracts that each provider will speak; for the core provider, those it will work with\n" + t.String()
}
