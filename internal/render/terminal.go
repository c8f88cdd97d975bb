// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"golang.org/x/term"
)

// defaultWidth is used where the size of a terminal can't be told.
const defaultWidth = 80

// IsTerminal tells whether a stream is a terminal: a person sees it at once, and lines can be redrawn.
func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// width returns how many columns a stream shows.
func width(stream any) int {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return defaultWidth
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return defaultWidth
}

// cut shortens text to n columns.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	if n < 1 {
		return ""
	}
	return string(runes[:n-1]) + "…"
}
