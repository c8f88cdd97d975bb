// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

type historyOptions struct{ *global }

func historyCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "Show all runs: who, when, from, to, result, and the proof about the Machines",
		Args:  arguments(0, 0, "nothing"),
		RunE:  runs(g, &historyOptions{global: g}),
	}
}

// Complete has nothing to fill in.
func (o *historyOptions) Complete([]string) error { return nil }

// Validate has nothing to refuse.
func (o *historyOptions) Validate() error { return nil }

// Run lists the runs.
func (o *historyOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		all, err := s.Runs(ctx)
		if err != nil {
			return err
		}
		return o.write(&render.History{Runs: all, Now: o.app.clock.Now(), Next: o.prompt})
	})
}

type explainOptions struct {
	*global
	id string
}

func explainCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [ID]",
		Short: "Say what a check means and how its finding is repaired; without ID, all checks",
		Args:  arguments(0, 1, "at most one ID"),
		RunE:  runs(g, &explainOptions{global: g}),
	}
}

// Complete takes the ID.
func (o *explainOptions) Complete(args []string) error {
	if len(args) > 0 {
		o.id = args[0]
	}
	return nil
}

// Validate has nothing to refuse.
func (o *explainOptions) Validate() error { return nil }

// Run finds the check.
func (o *explainOptions) Run(context.Context) error {
	out := &render.Explanation{Next: o.prompt("plan", "RELEASE")}
	var ids []string
	for _, c := range check.All() {
		ids = append(ids, c.ID)
		if o.id == "" || strings.EqualFold(c.ID, o.id) {
			out.Checks = append(out.Checks, render.ExplainedCheck{ID: c.ID, Title: c.Title, Doc: c.Doc, Fix: c.Fix, Sources: c.Sources, Waivable: c.Waivable})
		}
	}
	if len(out.Checks) == 0 {
		return problem.Usage("NoSuchCheck", "", "There is no check %q", o.id).WithRemedy("one of %s", strings.Join(ids, ", "))
	}
	return o.write(out)
}

type versionOptions struct{ *global }

func versionCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show which Capstan this is",
		Args:  arguments(0, 0, "nothing"),
		RunE:  runs(g, &versionOptions{global: g}),
	}
}

// Complete has nothing to fill in.
func (o *versionOptions) Complete([]string) error { return nil }

// Validate has nothing to refuse.
func (o *versionOptions) Validate() error { return nil }

// Run shows it. It makes no request.
func (o *versionOptions) Run(context.Context) error {
	b := build()
	return o.write(&render.Version{
		Version: b.Version, Revision: b.Revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}
