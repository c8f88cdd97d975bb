// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"slices"
	"strings"
)

// around is how many equal lines are shown before and after a difference.
const around = 3

// edit is one line of an edit script.
type edit struct {
	// sign is ' ' for a line of both, '-' for one that goes, '+' for one that comes.
	sign byte
	text string
}

// script returns how a becomes b. Lines that are in each once are fixed points, in the longest order that both have;
// what lies between is looked at in the same way, then taken as gone and come. That is not the shortest script there
// is, but for YAML, where "type: string" comes a thousand times, one that people can follow.
func script(a, b []string) []edit {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	tail := 0
	for tail < len(a)-start && tail < len(b)-start && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out := edits(' ', a[:start])
	out = append(out, between(a[start:len(a)-tail], b[start:len(b)-tail])...)
	return append(out, edits(' ', a[len(a)-tail:])...)
}

// between compares what has neither a common beginning nor a common end.
func between(a, b []string) []edit {
	if len(a) == 0 || len(b) == 0 {
		return append(edits('-', a), edits('+', b)...)
	}
	points := anchors(a, b)
	if len(points) == 0 {
		return append(edits('-', a), edits('+', b)...)
	}
	var out []edit
	x, y := 0, 0
	for _, p := range append(points, [2]int{len(a), len(b)}) {
		out = append(out, script(a[x:p[0]], b[y:p[1]])...)
		if p[0] < len(a) {
			out = append(out, edit{' ', a[p[0]]})
		}
		x, y = p[0]+1, p[1]+1
	}
	return out
}

func edits(sign byte, lines []string) []edit {
	out := make([]edit, 0, len(lines))
	for _, l := range lines {
		out = append(out, edit{sign, l})
	}
	return out
}

// anchors returns the places of lines that are once in each, in the longest sequence that grows in both.
func anchors(a, b []string) [][2]int {
	type places struct{ inA, inB, x, y int }
	seen := map[string]*places{}
	for i, l := range a {
		if seen[l] == nil {
			seen[l] = &places{}
		}
		seen[l].inA, seen[l].x = seen[l].inA+1, i
	}
	for i, l := range b {
		if p := seen[l]; p != nil {
			p.inB, p.y = p.inB+1, i
		}
	}
	var points [][2]int
	for i, l := range a {
		if p := seen[l]; p.inA == 1 && p.inB == 1 {
			points = append(points, [2]int{i, p.y})
		}
	}
	return longest(points)
}

// longest returns the longest subsequence whose second numbers grow; the first ones do already.
func longest(points [][2]int) [][2]int {
	// tails[n] is the point with the smallest second number that ends a sequence of n+1 points.
	var tails []int
	before := make([]int, len(points))
	for i, p := range points {
		n, _ := slices.BinarySearchFunc(tails, p[1], func(t, y int) int { return points[t][1] - y })
		before[i] = -1
		if n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
			continue
		}
		tails[n] = i
	}
	if len(tails) == 0 {
		return nil
	}
	var out [][2]int
	for i := tails[len(tails)-1]; i >= 0; i = before[i] {
		out = append(out, points[i])
	}
	slices.Reverse(out)
	return out
}

// Unified returns the difference of two texts in the unified format, under the given names; empty if there is none.
func Unified(from, to, a, b string) string {
	if a == b {
		return ""
	}
	steps := script(lines(a), lines(b))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
	for _, h := range hunks(steps) {
		h.write(&out, steps)
	}
	return out.String()
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// hunk is a stretch of an edit script, with where it begins in both texts, counted from 0.
type hunk struct{ from, to, a, b int }

// hunks returns the stretches around differences; those that touch are one.
func hunks(steps []edit) []hunk {
	var out []hunk
	a, b := 0, 0
	starts := make([][2]int, len(steps))
	for i, s := range steps {
		starts[i] = [2]int{a, b}
		if s.sign != '+' {
			a++
		}
		if s.sign != '-' {
			b++
		}
	}
	for i, s := range steps {
		if s.sign == ' ' {
			continue
		}
		from, to := max(0, i-around), min(len(steps), i+around+1)
		if n := len(out); n > 0 && from <= out[n-1].to {
			out[n-1].to = to
			continue
		}
		out = append(out, hunk{from: from, to: to, a: starts[from][0], b: starts[from][1]})
	}
	return out
}

func (h hunk) write(out *strings.Builder, steps []edit) {
	inA, inB := 0, 0
	for _, s := range steps[h.from:h.to] {
		if s.sign != '+' {
			inA++
		}
		if s.sign != '-' {
			inB++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(h.a, inA), span(h.b, inB))
	for _, s := range steps[h.from:h.to] {
		out.WriteByte(s.sign)
		out.WriteString(s.text + "\n")
	}
}

// span writes where a stretch of n lines begins, as diff does: an empty one after the line before it.
func span(start, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", start)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}
