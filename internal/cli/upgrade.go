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
	making
	// plan is the file of a saved plan; then no release is given.
	plan       string
	stallLimit time.Duration
}

func upgradeCommand(g *global) *cobra.Command {
	o := &upgradeOptions{global: g}
	c := &cobra.Command{
		Use:   "upgrade RELEASE | upgrade --plan FILE",
		Short: "Move the management cluster to a release, and follow until it is done",
		Long: "Plans, asks, applies and verifies. It ends when every component is at its target, or stops and says why.\n\n" +
			"Where a run to the same release has not ended, the upgrade goes on with it, as `capstan resume` does. After an unrequested\n" +
			"change of the fleet, or a change that the API server refused, it plans anew from where that run stands.\n\n" +
			"With --plan a saved plan is run as it is, or refused with what has moved since it was saved.\n\n" + releaseHelp,
		Args: arguments(0, 1, "a RELEASE"),
		RunE: runs(g, o),
	}
	o.making.flags(c.Flags())
	g.offlineFlag(c.Flags())
	c.Flags().StringVar(&o.plan, "plan", "", "run the plan that `capstan plan RELEASE --save` wrote to `FILE`")
	c.Flags().DurationVar(&o.stallLimit, "stall-limit", defaultStallLimit, "how long nothing may move before the run stops, as `DURATION`")
	return c
}

// Complete takes the release.
func (o *upgradeOptions) Complete(args []string) error {
	if len(args) > 0 {
		o.release = args[0]
	}
	return nil
}

// Validate refuses what can't be asked for.
func (o *upgradeOptions) Validate() error {
	switch {
	case o.release == "" && o.plan == "":
		return problem.Usage("MissingArgument", "", "capstan upgrade needs a RELEASE, or --plan FILE").WithRemedy("capstan upgrade --help")
	case o.release != "" && o.plan != "":
		return problem.Usage("TwoTargets", "--plan", "A saved plan holds its release: %q is one too many", o.release).
			WithRemedy("give either RELEASE or --plan FILE")
	case o.plan != "" && o.decides():
		return problem.Usage("PlanIsMade", "--plan", "How the plan is made was decided when it was saved").
			WithRemedy("give those flags to: capstan plan RELEASE --save %s", o.plan)
	}
	if o.stallLimit < time.Second {
		return problem.Usage("BadStallLimit", "--stall-limit", "A stall limit of %s would stop every run", o.stallLimit).WithRemedy("--stall-limit 2m")
	}
	if !o.yes && !o.interactive() {
		return problem.Usage("NeedsYes", "--yes", "Nobody can be asked here: this is no terminal").
			WithRemedy("see the plan with `%s`, then add --yes", o.prompt("plan", or(o.release, "RELEASE")))
	}
	return nil
}

// Run plans, asks, starts or continues, and follows.
func (o *upgradeOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		if err := o.wait.settle(ctx, o.global, s); err != nil {
			return err
		}
		d, err := o.draft(ctx, s)
		if err != nil {
			return err
		}
		if d.continues {
			return o.goOn(ctx, s, d)
		}
		return o.start(ctx, s, d)
	})
}

// draft makes the plan, or takes the saved one.
func (o *upgradeOptions) draft(ctx context.Context, s session) (*drafted, error) {
	if o.plan != "" {
		return o.reopen(ctx, s)
	}
	return draft(ctx, s, &o.making, false)
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
		fmt.Fprintln(o.app.streams.Err, planScreen(o.global, d))
	}
	if refused != nil {
		return refused
	}
	if err := o.confirm(ctx, "Upgrade now?", o.again()); err != nil {
		return err
	}
	run, err := s.Start(ctx, d.Draft, operation.StartOptions{By: requester(), Accepted: o.accepted, StallLimit: o.stallLimit})
	if err != nil {
		return err
	}
	return (&drive{global: o.global, session: s, release: o.release}).follow(ctx, run, d.Spec)
}

// planScreen is the plan's screen without its last line: the next command is the one that runs.
func planScreen(g *global, d *drafted) string {
	return withoutNext(d.document(g, "").Text(g.style(g.app.streams.Err)))
}

// withoutNext is a screen without its last line.
func withoutNext(text string) string {
	i := strings.LastIndex(strings.TrimRight(text, "\n"), "\n")
	return strings.TrimRight(text[:max(i, 0)], "\n") + "\n"
}

// goOn continues the open run.
func (o *upgradeOptions) goOn(ctx context.Context, s session, d *drafted) error {
	o.tell("Run %s to this release has not ended: going on with it", d.Open.Name)
	if err := o.confirm(ctx, "Go on now?", o.again()); err != nil {
		return err
	}
	return resume(ctx, o.global, s, d.Open.Name, o.release)
}

// confirm asks, unless the answer was given by --yes. again are the words of the command that asks.
func (g *global) confirm(ctx context.Context, question string, again []string) error {
	if g.yes {
		return nil
	}
	fmt.Fprintf(g.app.streams.Err, "%s [y/N] ", question)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-line(g.app.streams.In):
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return problem.Blocked("NotConfirmed", "Not confirmed: nothing was changed").WithRemedy("%s", g.prompt(again...))
}

// again are the words of this very command.
func (o *upgradeOptions) again() []string {
	if o.plan != "" {
		return append([]string{"upgrade", "--plan", o.plan}, o.acceptances()...)
	}
	return o.words(o.global, "upgrade")
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
