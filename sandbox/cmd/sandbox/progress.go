// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
	"k8s.io/utils/clock"
)

const (
	redrawEvery = 200 * time.Millisecond
	// quietFor is how long plain output keeps silent within one step.
	quietFor = 20 * time.Second
)

// progress shows what is being done: a line a step with its time, redrawn in place on a terminal, plain lines otherwise.
type progress struct {
	out   io.Writer
	live  bool
	clock clock.Clock
	begin time.Time
}

func newProgress(out io.Writer, clk clock.Clock) *progress {
	f, ok := out.(*os.File)
	return &progress{out: out, live: ok && term.IsTerminal(int(f.Fd())), clock: clk, begin: clk.Now()}
}

// step is one line of the display. Steps follow each other; they don't overlap.
type step struct {
	p       *progress
	title   string
	begin   time.Time
	mu      sync.Mutex
	detail  string
	changed bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// step starts a step.
func (p *progress) step(title string) *step {
	s := &step{p: p, title: title, begin: p.clock.Now(), stop: make(chan struct{})}
	if !p.live {
		fmt.Fprintf(p.out, "%s ...\n", title)
	}
	s.stopped.Go(s.run)
	return s
}

// note replaces the detail shown behind the title.
func (s *step) note(detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = s.changed || detail != s.detail
	s.detail = detail
}

// end finishes the step and returns err as it is.
func (s *step) end(err error, result string) error {
	close(s.stop)
	s.stopped.Wait()
	mark, wipe := "ok", ""
	if err != nil {
		mark, result = "FAILED", ""
	}
	if s.p.live {
		wipe = "\r\x1b[2K"
	}
	if result != "" {
		result = ": " + result
	}
	fmt.Fprintf(s.p.out, "%s%-6s %s%s (%s)\n", wipe, mark, s.title, result, seconds(s.p.clock.Since(s.begin)))
	return err
}

func (s *step) run() {
	every := quietFor
	if s.p.live {
		every = redrawEvery
	}
	tick := s.p.clock.NewTimer(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C():
			s.draw()
			tick.Reset(every)
		}
	}
}

func (s *step) draw() {
	s.mu.Lock()
	detail, changed := s.detail, s.changed
	s.changed = false
	s.mu.Unlock()
	elapsed := seconds(s.p.clock.Since(s.begin))
	if s.p.live {
		fmt.Fprintf(s.p.out, "\r\x1b[2K%-6s %s", elapsed, clip(s.title+"  "+detail, s.p.width()-8))
		return
	}
	if changed {
		fmt.Fprintf(s.p.out, "       %s: %s (%s)\n", s.title, detail, elapsed)
	}
}

// width is the terminal's, read each time because it changes.
func (p *progress) width() int {
	if f, ok := p.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
