// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
	"github.com/capstan-dev/capstan/internal/store"
)

// defaultStallLimit is how long nothing may move before a run stops.
const defaultStallLimit = 2 * time.Minute

type upgradeOptions struct {
	*global
	release    string
	stallLimit time.Duration
}

func upgradeCommand(g *global) *cobra.Command {
	o := &upgradeOptions{global: g}
	c := &cobra.Command{
		Use:   "upgrade RELEASE",
		Short: "Move the management cluster to a release, and follow until it is done",
		Long: "Plans, asks, applies and verifies. It ends when every component is at its target, or stops and says why.\n\n" +
			"Where a run to the same release has not ended, the upgrade goes on with it, as `capstan resume` does. After an unrequested\n" +
			"change of the fleet, or a change that the API server refused, it plans anew from where that run stands.\n\n" + releaseHelp,
		Args: arguments(1, 1, "a RELEASE"),
		RunE: runs(g, o),
	}
	c.Flags().DurationVar(&o.stallLimit, "stall-limit", defaultStallLimit, "how long nothing may move before the run stops, as `DURATION`")
	return c
}

// Complete takes the release.
func (o *upgradeOptions) Complete(args []string) error {
	o.release = args[0]
	return nil
}

// Validate refuses what can't be asked for.
func (o *upgradeOptions) Validate() error {
	if o.stallLimit < time.Second {
		return problem.Usage("BadStallLimit", "--stall-limit", "A stall limit of %s would stop every run", o.stallLimit).WithRemedy("--stall-limit 2m")
	}
	if !o.yes && !o.interactive() {
		return problem.Usage("NeedsYes", "--yes", "Nobody can be asked here: this is no terminal").
			WithRemedy("see the plan with `%s`, then add --yes", o.prompt("plan", o.release))
	}
	return nil
}

// Run plans, asks, starts or continues, and follows.
func (o *upgradeOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		d, err := draft(ctx, s, o.release)
		if err != nil {
			return err
		}
		if d.continues {
			return o.goOn(ctx, s, d)
		}
		return o.start(ctx, s, d)
	})
}

// start begins a run of the plan.
func (o *upgradeOptions) start(ctx context.Context, s session, d *drafted) error {
	refused := d.refusal(o.global)
	if refused == nil && len(d.Spec.Steps) == 0 {
		if d.Open != nil {
			o.tell("Run %s to %s is still open; end it by: %s", d.Open.Name, d.Open.Spec.To, o.prompt("abort"))
		}
		return o.write(&render.Summary{Plan: d.Spec, Now: o.app.clock.Now(), Next: o.prompt("status")})
	}
	if !o.structured() {
		fmt.Fprintln(o.app.streams.Err, planScreen(o.global, d, o.release))
	}
	if refused != nil {
		return refused
	}
	if err := o.confirm(ctx, "Upgrade now?"); err != nil {
		return err
	}
	run, err := s.Start(ctx, d.Draft, operation.StartOptions{By: requester(), Accepted: o.accepted, StallLimit: o.stallLimit})
	if err != nil {
		return err
	}
	return (&drive{global: o.global, session: s, release: o.release}).follow(ctx, run, d.Spec)
}

// planScreen is the plan's screen without its last line: the next command is the one that runs.
func planScreen(g *global, d *drafted, ref string) string {
	text := d.document(g, ref).Text(g.style(g.app.streams.Err))
	i := strings.LastIndex(strings.TrimRight(text, "\n"), "\n")
	return strings.TrimRight(text[:max(i, 0)], "\n") + "\n"
}

// goOn continues the open run.
func (o *upgradeOptions) goOn(ctx context.Context, s session, d *drafted) error {
	o.tell("Run %s to this release has not ended: going on with it", d.Open.Name)
	if err := o.confirm(ctx, "Go on now?"); err != nil {
		return err
	}
	return resume(ctx, o.global, s, d.Open.Name, o.release)
}

// confirm asks, unless the answer was given by --yes.
func (o *upgradeOptions) confirm(ctx context.Context, question string) error {
	if o.yes {
		return nil
	}
	fmt.Fprintf(o.app.streams.Err, "%s [y/N] ", question)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-line(o.app.streams.In):
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return problem.Blocked("NotConfirmed", "Not confirmed: nothing was changed").WithRemedy("%s", o.prompt(o.upgradeWords(o.release)...))
}

// line reads one line beside the caller, who may be interrupted while nobody types: reading from a terminal can't be.
func line(in io.Reader) <-chan string {
	out := make(chan string, 1)
	go func() {
		answer, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			answer = ""
		}
		out <- strings.ToLower(strings.TrimSpace(answer))
	}()
	return out
}

// requester is who asks: the user and the machine.
func requester() string {
	id := store.Self()
	return id.User + "@" + id.Host
}
