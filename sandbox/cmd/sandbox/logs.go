// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// followEvery is how often a followed log is looked at.
const followEvery = 250 * time.Millisecond

// logsOptions are the options of `sandbox logs`.
type logsOptions struct {
	location
	streams streams
	clock   clock.Clock
	follow  bool
	tail    int
}

func newLogsCommand(s streams, clk clock.Clock) *cobra.Command {
	o := &logsOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print the log of a component: supervisor, etcd, kube-apiserver, kube-controller-manager or kube-scheduler",
		Long: `logs prints the log of one component of the sandbox. The proxy, the registry and the node agent are part of the supervisor and
write to its log. Logs of Pods are read with kubectl logs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	o.addFlags(c)
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on printing what is added")
	c.Flags().IntVar(&o.tail, "tail", -1, "print only that many lines from the end")
	return c
}

func (o *logsOptions) run(ctx context.Context, component string) error {
	l, err := o.layout()
	if err != nil {
		return err
	}
	path := l.Log(component)
	if filepath.Dir(path) != l.Logs() {
		return usagef("%q is not the name of a component", component)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hint(fmt.Errorf("there is no log of %q in %s", component, l.Logs()), "choose one of: %s", strings.Join(logNames(l), ", "))
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer f.Close()
	if o.tail >= 0 {
		lines, err := lastLines(path, o.tail)
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Fprintln(o.streams.out, line)
		}
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
	}
	for {
		if _, err := io.Copy(o.streams.out, f); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		if !o.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.clock.After(followEvery):
		}
	}
}

// logNames lists the logs there are.
func logNames(l supervisor.Layout) []string {
	entries, err := os.ReadDir(l.Logs())
	if err != nil {
		return []string{"(none: " + err.Error() + ")"}
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".log"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// lastLines returns the last n lines of a file.
func lastLines(path string, n int) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	if len(data) == 0 || n == 0 {
		return nil, nil
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return lines[max(0, len(lines)-n):], nil
}
