// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
	"time"
)

// span says how long: "320 ms", "3.1 s", "31 s", "2 min 5 s", "1 h 3 min".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d > 0 && d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d/time.Second))
	case d < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", int(d/time.Minute), int(d%time.Minute/time.Second)), " 0 s")
	}
	return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d/time.Hour), int(d%time.Hour/time.Minute)), " 0 min")
}

// moment says when, in UTC: people read it beside logs of other machines.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// or returns text, or instead where text is empty.
func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

// route says from where to where: "v1.13.4 → v1.14.2", "new → v1.14.2".
func route(from, to string) string { return or(from, "new") + " → " + to }

// nextLine is the last line of a screen.
func nextLine(s Style, command string) string { return "\n" + s.strong("Next:") + " " + command + "\n" }
