// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"unicode/utf8"
)

// gap is the space between columns.
const gap = "  "

// table lays out rows in columns. A row of one cell stands below the row before it, over the whole width.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{rows: [][]string{head}} }

// add adds a row; empty cells are shown as "-".
func (t *table) add(cells ...string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// note adds a line below the last row.
func (t *table) note(text string) { t.rows = append(t.rows, []string{text}) }

func (t *table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		if len(row) == 1 {
			continue
		}
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// String returns the table; each line ends with a line break and has no trailing space.
func (t *table) String() string {
	var b strings.Builder
	widths := t.widths()
	for _, row := range t.rows {
		if len(row) == 1 {
			b.WriteString("  " + row[0] + "\n")
			continue
		}
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + gap)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
