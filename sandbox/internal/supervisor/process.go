// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
)

// tailLines is how much of a log an error message carries.
const tailLines = 12

// processComponent makes a component of a child process whose output goes to a log file.
func processComponent(c controlplane.Component, l Layout, clk clock.Clock) *component {
	path := l.Log(c.Name)
	return &component{
		name:   c.Name,
		health: c.Health,
		clock:  clk,
		tail:   func() string { return tail(path, tailLines) },
		status: ComponentStatus{Name: c.Name, State: StatePending, Since: clk.Now()},
		run: func(ctx context.Context, started func(int)) error {
			return runProcess(ctx, c, path, started)
		},
	}
}

// runProcess runs a child until it ends or ctx does. Then it is killed without ceremony: the state of a sandbox that stops is thrown away.
func runProcess(ctx context.Context, c controlplane.Component, logPath string, started func(int)) error {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	started(cmd.Process.Pid)
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("ended by itself (%w)", exit)
	}
	return err //nolint:wrapcheck // nil, or the reason the wait itself failed
}

// tail returns the last n lines of a file, indented; a missing file has none.
func tail(path string, n int) string {
	const window = 16 << 10
	f, err := os.Open(path)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-window), window))
	if err != nil {
		return "  (log unreadable: " + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	return "  last lines of " + path + ":\n    " + strings.Join(lines, "\n    ")
}
