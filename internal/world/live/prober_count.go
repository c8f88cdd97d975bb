// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// maxGaps bounds the gaps that are kept; the longest one's length is kept for ever.
const maxGaps = 20

// probeCount counts the calls to one cluster. A gap opens with a failed call, at the time of the last answer before it,
// and closes with the next answer: in between nobody knows better.
type probeCount struct {
	total, failed int64
	lastAnswer    time.Time
	lastError     string
	open          *world.Gap
	gaps          []world.Gap
	longest       time.Duration
}

// add counts one call that began at start and ended at end.
func (c *probeCount) add(start, end time.Time, err error) {
	c.total++
	if err == nil {
		if c.open != nil {
			c.open.To = end
			c.longest = max(c.longest, c.open.To.Sub(c.open.From))
			c.gaps = append(c.gaps, *c.open)
			c.gaps = c.gaps[max(0, len(c.gaps)-maxGaps):]
			c.open = nil
		}
		c.lastAnswer = end
		return
	}
	c.failed++
	c.lastError = diagnose.Words(err)
	if c.open != nil {
		return
	}
	from := c.lastAnswer
	if from.IsZero() {
		from = start
	}
	c.open = &world.Gap{From: from, Error: c.lastError}
}

// probe returns the counts as of now.
func (c *probeCount) probe(cluster string, now time.Time) world.Probe {
	p := world.Probe{
		Cluster: cluster, Total: c.total, Failed: c.failed, LastError: c.lastError,
		LongestGap: c.longest, Gaps: slices.Clone(c.gaps),
	}
	if c.open != nil {
		gap := *c.open
		gap.To = now
		p.LongestGap = max(p.LongestGap, gap.To.Sub(gap.From))
		p.Gaps = append(p.Gaps, gap)
		p.Gaps = p.Gaps[max(0, len(p.Gaps)-maxGaps):]
	}
	return p
}
