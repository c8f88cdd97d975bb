// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/event"
)

// Progress shows events while a run goes on.
type Progress interface {
	// Event takes one event.
	Event(e event.Event)
	// Close shows what is left to show. No event may come after it.
	Close()
}

// line is an event in words.
type line struct {
	at   time.Time
	word string
	text string
	// more are lines below it.
	more []string
}

// lineOf puts an event into words.
func lineOf(e event.Event) line {
	switch e := e.(type) {
	case event.StepStarted:
		return line{at: e.At, word: "start", text: e.Summary}
	case event.StepDone:
		return line{at: e.At, word: "done", text: fmt.Sprintf("%s (%s; %d of %d)", e.Summary, span(e.Took), e.Index, e.Total)}
	case event.Waiting:
		l := line{at: e.At, word: "wait", text: e.Component + ": " + e.Detail}
		for _, c := range e.Causes {
			if c.Definite {
				l.more = append(l.more, c.Reason+": "+c.Message)
			}
		}
		return l
	case event.Retrying:
		return line{at: e.At, word: "retry", text: fmt.Sprintf("the management cluster did not take the step for %s: %v", span(e.At.Sub(e.Since)), e.Err)}
	case event.Kept:
		return line{at: e.At, word: "keep", text: fmt.Sprintf("%s: %s as %s set it by hand", e.Object, strings.Join(e.Fields, ", "), e.Manager)}
	case event.TookOver:
		return line{at: e.At, word: "take", text: "over from " + e.From}
	case event.Stopped:
		return line{at: e.At, word: "stop", text: because(e.Stops)}
	case event.Ended:
		return line{at: e.At, word: "end", text: e.Reason}
	}
	return line{word: "?", text: fmt.Sprintf("%T", e)}
}

// lines prints one line an event, for logs and pipes.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// NewLines returns a Progress that writes one plain line an event.
func NewLines(w io.Writer) Progress { return &lines{w: w} }

// Event writes the event's line.
func (p *lines) Event(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := lineOf(e)
	fmt.Fprintf(p.w, "%s  %-5s  %s\n", l.at.Format(time.TimeOnly), l.word, l.text)
	for _, m := range l.more {
		fmt.Fprintf(p.w, "%15s  %s\n", "", m)
	}
}

// Close does nothing: all lines are written.
func (p *lines) Close() {}
