// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/capstan-dev/capstan/internal/problem"
)

// complete makes sure that an error says what it is about and what to do next, also where whoever made it did not know.
func complete(p *problem.Error, command string) *problem.Error {
	whole := *p
	if whole.Object == "" {
		whole.Object = file(p.Where)
	}
	if whole.Object == "" {
		whole.Object = command
	}
	if whole.Remedy != "" {
		return &whole
	}
	switch whole.Exit {
	case problem.ExitUsage:
		whole.Remedy = "correct what is named, then run the command again; " + command + " --help tells what it takes"
		if whole.Where != "" {
			whole.Remedy = "correct it there, then run the command again"
		}
	case problem.ExitStopped, problem.ExitFailed, problem.ExitInterrupted:
		whole.Remedy = "capstan status"
	case problem.ExitDone, problem.ExitError, problem.ExitBlocked:
		whole.Remedy = "remove the cause, then run the command again; nothing was changed that `capstan status` does not show"
	}
	return &whole
}

// file takes line and column off a place.
func file(where string) string {
	name, _, _ := strings.Cut(where, ":")
	return name
}
