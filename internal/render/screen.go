// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"
)

// screen is the lower part of a terminal that is redrawn in place.
type screen struct {
	w     io.Writer
	drawn int
}

// draw writes permanent lines above, then the block in place of the block before. Lines of the block are cut to the
// terminal's width, so that the cursor can find back.
func (s *screen) draw(permanent, block []string) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.drawn)
	}
	for _, l := range permanent {
		b.WriteString(l + "\n")
	}
	columns := width(s.w)
	for _, l := range block {
		b.WriteString(cut(l, columns-1) + "\n")
	}
	s.drawn = len(block)
	// A terminal that went away is no reason to end a run.
	_, _ = io.WriteString(s.w, b.String())
}
