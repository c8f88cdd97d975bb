// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/phrase"
)

// frame is how often a live progress is redrawn.
const frame = 120 * time.Millisecond

// LiveOptions are what a live progress needs.
type LiveOptions struct {
	// Out is the terminal.
	Out io.Writer
	// Clock tells the time.
	Clock clock.WithTicker
	// Style is how it looks.
	Style Style
	// Title is the block's first line.
	Title string
	// Started is when the run began, Done and Total are its steps.
	Started     time.Time
	Done, Total int
}

// live shows finished steps as lines and what goes on as a block below them, redrawn in place. Events only change its
// state; its own goroutine draws, so a slow terminal never holds up the run. Close waits for it.
type live struct {
	o      LiveOptions
	screen screen
	stop   chan struct{}
	drawer sync.WaitGroup

	mu        sync.Mutex
	permanent []string
	active    []event.StepStarted
	waiting   *event.Waiting
	retrying  *event.Retrying
	done      int
	total     int
	turn      int
}

// NewLive returns a Progress for a terminal.
func NewLive(o LiveOptions) Progress {
	p := &live{o: o, screen: screen{w: o.Out}, stop: make(chan struct{}), done: o.Done, total: o.Total}
	p.drawer.Go(p.run)
	return p
}

func (p *live) run() {
	ticker := p.o.Clock.NewTicker(frame)
	defer ticker.Stop()
	for {
		p.screen.draw(p.picture())
		select {
		case <-p.stop:
			last, _ := p.picture()
			p.screen.draw(last, nil)
			return
		case <-ticker.C():
		}
	}
}

// Event notes what happened.
func (p *live) Event(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retrying = nil
	switch e := e.(type) {
	case event.StepStarted:
		p.active = append(p.active, e)
	case event.StepDone:
		p.done, p.total, p.waiting = e.Index, e.Total, nil
		p.active = slices.DeleteFunc(p.active, func(s event.StepStarted) bool { return s.Step == e.Step })
		p.say(e)
	case event.Waiting:
		p.waiting = &e
	case event.Retrying:
		p.retrying = &e
	case event.Kept, event.TookOver, event.Stopped, event.Ended:
		p.say(e)
	}
}

func (p *live) say(e event.Event) {
	l := lineOf(e)
	word := fmt.Sprintf("%-5s", l.word)
	switch e.(type) {
	case event.StepDone, event.Ended:
		word = p.o.Style.good(word)
	case event.Stopped:
		word = p.o.Style.bad(word)
	default:
		word = p.o.Style.warn(word)
	}
	p.permanent = append(p.permanent, word+"  "+l.text)
}

// picture returns the lines that were not shown yet, and the block.
func (p *live) picture() (permanent, block []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	permanent, p.permanent = p.permanent, nil
	p.turn++
	now := p.o.Clock.Now()
	spinner := string([]rune(`|/-\`)[p.turn%4])
	block = append(block, fmt.Sprintf("%s %s: %d of %s, %s", spinner, p.o.Title, p.done, phrase.Count(p.total, "step"), span(now.Sub(p.o.Started).Truncate(time.Second))))
	for _, s := range p.active {
		block = append(block, fmt.Sprintf("  now    %s, %s", s.Summary, span(now.Sub(s.At).Truncate(time.Second))))
	}
	if p.waiting != nil {
		l := lineOf(*p.waiting)
		block = append(block, fmt.Sprintf("  waits  %s, %s", l.text, span(now.Sub(p.waiting.Since).Truncate(time.Second))))
		for _, m := range l.more {
			block = append(block, "         "+m)
		}
	}
	if p.retrying != nil {
		block = append(block, "  retry  "+lineOf(*p.retrying).text)
	}
	return permanent, block
}

// Close draws what is left, removes the block and waits for the drawing to end.
func (p *live) Close() {
	close(p.stop)
	p.drawer.Wait()
}
