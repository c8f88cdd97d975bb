// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// supportFile is upstream's page of supported versions, kept with the bundle.
const supportFile = "versions.md"

// parseSupport reads the table of Kubernetes versions that the core provider supports from upstream's page:
//
//	|                  | v1.13             | v1.14             |
//	| Kubernetes v1.31 | ✓ (only workload) | ✓ (only workload) |
//	| Kubernetes v1.33 | ✓                 | ✓                 |
//	| Kubernetes v1.37 | ✓ >= v1.13.6      | ✓ >= v1.14.1      |
//
// It returns the ranges for management and workload clusters, or nothing if the page has no column for the version.
func parseSupport(page, version string) map[string]*span {
	var management, workload []string
	column := -1
	for line := range strings.SplitSeq(page, "\n") {
		cells := tableCells(line)
		switch {
		case len(cells) < 2:
			if column >= 0 {
				return supportRanges(management, workload) // the first table with the column is the core provider's
			}
		case column < 0:
			column = versionColumn(cells, semver.MajorMinor(version))
		default:
			kubernetes, ok := strings.CutPrefix(cells[0], "Kubernetes ")
			if !ok || column >= len(cells) || !supported(cells[column], version) {
				continue
			}
			workload = append(workload, kubernetes)
			if !strings.Contains(cells[column], "only workload") {
				management = append(management, kubernetes)
			}
		}
	}
	return supportRanges(management, workload)
}

// tableCells splits a row of a table; other lines have none.
func tableCells(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// versionColumn finds the column of a minor version in a header whose first cell is empty.
func versionColumn(cells []string, minor string) int {
	if cells[0] != "" {
		return -1
	}
	for i, cell := range cells {
		name, _, _ := strings.Cut(cell, ",")
		if name == minor {
			return i
		}
	}
	return -1
}

// supported reads a cell: a tick, perhaps from some patch version on.
func supported(cell, version string) bool {
	if !strings.HasPrefix(cell, "✓") {
		return false
	}
	from := regexp.MustCompile(`>= (v[0-9.]+)`).FindStringSubmatch(cell)
	return from == nil || semver.Compare(version, from[1]) >= 0
}

func supportRanges(management, workload []string) map[string]*span {
	if len(management) == 0 || len(workload) == 0 {
		return nil
	}
	return map[string]*span{"management": minorSpan(management), "workload": minorSpan(workload)}
}

// minorSpan covers minor versions with all their patch releases.
func minorSpan(minors []string) *span {
	semver.Sort(minors)
	return &span{Min: minors[0] + ".0", Max: minors[len(minors)-1] + ".99"}
}
