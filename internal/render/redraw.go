// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"io"
	"strings"
)

// NewRedraw returns a function that shows a text in place of the one before it, on a terminal.
func NewRedraw(w io.Writer) func(text string) {
	s := &screen{w: w}
	return func(text string) { s.draw(nil, strings.Split(strings.TrimRight(text, "\n"), "\n")) }
}
