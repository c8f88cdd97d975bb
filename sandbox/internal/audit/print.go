// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Text returns a yield function for Read that prints a line a write:
// time, user agent, user, verb, "dry-run" or "-", object, response code.
func Text(w io.Writer) func(Write) error {
	return func(e Write) error {
		dry := "-"
		if e.DryRun {
			dry = "dry-run"
		}
		_, err := fmt.Fprintf(w, "%s  %-24s  %-40s  %-6s  %-7s  %s  %d\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), program(e.UserAgent),
			e.User, e.Verb, dry, e.Object(), e.Code)
		if err != nil {
			return fmt.Errorf("print write: %w", err)
		}
		return nil
	}
}

// JSON returns a yield function for Read that prints one JSON object a line.
func JSON(w io.Writer) func(Write) error {
	enc := json.NewEncoder(w)
	return func(e Write) error {
		if err := enc.Encode(e); err != nil {
			return fmt.Errorf("print write: %w", err)
		}
		return nil
	}
}

// program shortens a user agent to its program and version: what follows in brackets is the platform and the commit.
func program(agent string) string {
	short, _, _ := strings.Cut(agent, " ")
	if short == "" {
		return "(no-agent)"
	}
	return short
}
