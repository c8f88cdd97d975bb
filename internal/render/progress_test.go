// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
)

// events are one of each type, in an order in which they may come.
func events() []event.Event {
	return []event.Event{
		event.TookOver{At: at(0).Time, From: "bob@desk, process 7"},
		event.StepStarted{At: at(1).Time, Step: "crds/a/v2", Component: "a", Summary: "Apply 4 CRDs of a v2", Attempt: 1},
		event.StepDone{At: at(3).Time, Step: "crds/a/v2", Component: "a", Summary: "Apply 4 CRDs of a v2", Took: 2 * time.Second, Index: 1, Total: 3},
		event.StepStarted{At: at(3).Time, Step: "swap/a/v2", Component: "a", Summary: "Swap a to v2", Attempt: 1},
		event.Kept{At: at(3).Time, Object: "Deployment a/m", Fields: []string{".spec.replicas"}, Manager: "kubectl-edit", ManagerChangeAt: at(2).Time},
		event.Retrying{At: at(6).Time, Err: errors.New("connection refused"), Since: at(4).Time},
		event.Waiting{
			At: at(7).Time, Step: "swap/a/v2", Component: "a", Detail: "Deployment a/m: 0 of 1 updated", Since: at(5).Time,
			Causes: []v1alpha1.Waiting{{Stop: imageStop(), Since: at(7), Definite: true}},
		},
		event.Stopped{At: at(8).Time, Stops: []v1alpha1.Stop{imageStop()}},
		event.Ended{At: at(9).Time, Reason: "Aborted"},
	}
}

func TestLinesOfEvents(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*bytes.Buffer) Progress{
		"progress.lines": func(b *bytes.Buffer) Progress { return NewLines(b) },
		"progress.jsonl": func(b *bytes.Buffer) Progress { return NewJSONLines(b) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			p := start(&b)
			for _, e := range events() {
				p.Event(e)
			}
			p.Close()
			golden(t, name, b.Bytes())
		})
	}
}

func TestLivePictures(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(start())
	p := &live{o: LiveOptions{Clock: fake, Title: "Upgrade to v2", Started: start(), Total: 3}, total: 3}
	var film strings.Builder
	for _, e := range events() {
		p.Event(e)
		fake.SetTime(lineOf(e).at)
		permanent, block := p.picture()
		for _, l := range permanent {
			film.WriteString("^ " + l + "\n")
		}
		for _, l := range block {
			film.WriteString("| " + l + "\n")
		}
		film.WriteString("--\n")
	}
	golden(t, "progress.live", []byte(film.String()))
}

// TestLiveLeavesOnlyPermanentLines plays what is written to a terminal and compares what a person sees at the end.
func TestLiveLeavesOnlyPermanentLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := NewLive(LiveOptions{Out: &b, Clock: clocktesting.NewFakeClock(start()), Title: "Upgrade to v2", Started: start(), Total: 3})
	for _, e := range events() {
		p.Event(e)
	}
	p.Close()
	got := play(t, b.String())
	want := []string{
		"take   over from bob@desk, process 7",
		"done   Apply 4 CRDs of a v2 (2 s; 1 of 3)",
		"keep   Deployment a/m: .spec.replicas as kubectl-edit set it by hand",
		"stop   cluster-api: ImageNotFound",
		"end    Aborted",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("the terminal at the end (-got +want):\n%s", diff)
	}
}

// play is a terminal that knows line breaks, "cursor up" and "clear to the end".
func play(t *testing.T, written string) []string {
	t.Helper()
	var rows []string
	for written != "" {
		if rest, ok := strings.CutPrefix(written, "\x1b["); ok {
			up, after, found := strings.Cut(rest, "A\r\x1b[J")
			if !found {
				t.Fatalf("unknown escape in %q", written)
			}
			n := 0
			for _, digit := range up {
				n = n*10 + int(digit-'0')
			}
			rows, written = rows[:len(rows)-n], after
			continue
		}
		row, after, _ := strings.Cut(written, "\n")
		rows, written = append(rows, row), after
	}
	return rows
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0 s": 0, "320 ms": 320 * time.Millisecond, "3.1 s": 3100 * time.Millisecond, "3 s": 3 * time.Second, "31 s": 31*time.Second + 900*time.Millisecond,
		"1 min": time.Minute, "2 min 5 s": 125 * time.Second, "1 h 3 min": 63 * time.Minute, "2 h": 2 * time.Hour,
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestCutKeepsToTheWidth(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"a longer line", 6, "a lon…"}, {"näher", 3, "nä…"}, {"x", 0, ""}} {
		if got := cut(tc.text, tc.n); got != tc.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
}
