// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer string
		want   problem.Exit
	}{
		"y goes on":                            {answer: "y\n"},
		"YES goes on":                          {answer: "YES\n"},
		"another answer changes nothing":       {answer: "maybe\n", want: problem.ExitBlocked},
		"an empty line changes nothing":        {answer: "\n", want: problem.ExitBlocked},
		"the end of input changes nothing":     {answer: "", want: problem.ExitBlocked},
		"a line that was cut off is no answer": {answer: "y", want: problem.ExitBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &upgradeOptions{global: &global{app: &app{streams: Streams{In: strings.NewReader(tc.answer), Err: &bytes.Buffer{}}}}}
			if err := o.confirm(t.Context(), "Now?", o.again()); problem.ExitOf(err) != tc.want {
				t.Errorf("confirm returned %v, want exit code %d", err, tc.want)
			}
		})
	}
}

func TestConfirmEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	in, typed := io.Pipe() // nobody types
	defer typed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := &upgradeOptions{global: &global{app: &app{streams: Streams{In: in, Err: &bytes.Buffer{}}}}}
	if err := o.confirm(ctx, "Now?", o.again()); !errors.Is(err, context.Canceled) {
		t.Errorf("confirm returned %v, want that it was cancelled", err)
	}
}
