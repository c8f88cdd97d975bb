// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/audit"
	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// auditOptions are the options of `sandbox audit`.
type auditOptions struct {
	location
	streams streams
	clock   clock.PassiveClock
	filter  audit.Filter
	since   string
	output  string
}

func newAuditCommand(s streams, clk clock.PassiveClock) *cobra.Command {
	o := &auditOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "audit",
		Short: "Print the writes in the API server's audit log",
		Long: `audit prints a line for each create, update, patch, delete and deletecollection the API server has answered:
time, user agent, user, verb, "dry-run" or "-", object, response code.

Dry runs are no writes and are left out unless --dry-run is given. The leases and the node status written by the control plane's
own components, and access and token reviews, which store nothing, are not in the log. The log of an ended sandbox can be read until
the next 'sandbox up'.`,
		Example: `  sandbox audit --agent capstan
  sandbox audit --since 5m -o json`,
		RunE: func(*cobra.Command, []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.run()
		},
	}
	o.addFlags(c)
	f := c.Flags()
	f.StringVar(&o.filter.Agent, "agent", "", "only writes by clients whose user agent begins with this, in any case of letters")
	f.StringVar(&o.since, "since", "", "only writes since then: a duration like 5m, or a time like 2026-01-02T15:04:05Z")
	f.BoolVar(&o.filter.DryRun, "dry-run", false, "include dry runs")
	f.StringVarP(&o.output, "output", "o", "text", "text, or json for one object a line")
	return c
}

func (o *auditOptions) complete() error {
	if err := outputFormat(o.output); err != nil {
		return err
	}
	if o.since == "" {
		return nil
	}
	if d, err := time.ParseDuration(o.since); err == nil {
		o.filter.Since = o.clock.Now().Add(-d)
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, o.since)
	if err != nil {
		return usagef("--since %q: write a duration like 5m or a time like 2026-01-02T15:04:05Z", o.since)
	}
	o.filter.Since = t
	return nil
}

func (o *auditOptions) run() error {
	l, err := o.layout()
	if err != nil {
		return err
	}
	log, err := os.Open(controlplane.FilesIn(l.Dir).AuditLog())
	if errors.Is(err, fs.ErrNotExist) {
		return o.explain(fmt.Errorf("%w: %w", supervisor.ErrNotRunning, err))
	}
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	defer log.Close()
	show := audit.Text(o.streams.out)
	if o.output == "json" {
		show = audit.JSON(o.streams.out)
	}
	return audit.Read(log, o.filter, show)
}
