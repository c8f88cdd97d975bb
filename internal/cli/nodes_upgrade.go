// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// defaultRollStallLimit is how long nothing may move before a roll stops: a server that is cleaned and written shows nothing
// for long.
const defaultRollStallLimit = 45 * time.Minute

type nodesUpgradeOptions struct {
	nodesOptions

	stallLimit time.Duration
}

func nodesUpgradeCommand(g *global) *cobra.Command {
	o := &nodesUpgradeOptions{nodesOptions: nodesOptions{global: g, command: "upgrade"}}
	c := &cobra.Command{
		Use:   "upgrade IMAGE",
		Short: "Roll the nodes of workload clusters to an image, one Machine at a time in each pool",
		Long: "Plans, asks, and rolls control planes and workers to an image. Each old Machine waits until the one before it is back, well,\n" +
			"and runs what the image's catalog entry says; a process that dies holds the roll. `capstan pause` holds it between two\n" +
			"Machines, `capstan resume` goes on, and `capstan abort` ends it with the pool paused where it stands.\n\n" + imageHelp,
		Args: arguments(0, 1, "an IMAGE"),
		RunE: runs(g, o),
	}
	o.flags(c)
	c.Flags().DurationVar(&o.stallLimit, "stall-limit", defaultRollStallLimit, "how long nothing may move before the run stops, as `DURATION`")
	return c
}

// Validate refuses what can't be asked for.
func (o *nodesUpgradeOptions) Validate() error {
	if o.image == "" {
		return problem.Usage("MissingArgument", "", "capstan nodes upgrade needs an IMAGE").WithRemedy("capstan nodes upgrade --help")
	}
	if err := o.nodesOptions.Validate(); err != nil {
		return err
	}
	if o.stallLimit < time.Second {
		return problem.Usage("BadStallLimit", "--stall-limit", "A stall limit of %s would stop every run", o.stallLimit).WithRemedy("--stall-limit 45m")
	}
	if !o.yes && !o.interactive() {
		return problem.Usage("NeedsYes", "--yes", "Nobody can be asked here: this is no terminal").
			WithRemedy("see the plan with `%s`, then add --yes", o.prompt(o.words("plan")...))
	}
	return nil
}

// Run plans, asks, starts and follows.
func (o *nodesUpgradeOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		d, err := o.draft(ctx, s)
		if err != nil {
			return err
		}
		refused := operation.AdmitNodes(d, o.accepted)
		if refused == nil && len(d.Roll.Spec.Pools) == 0 {
			return o.write(&render.Summary{Plan: d.Roll.Spec, Now: o.app.clock.Now(), Next: o.prompt("status")})
		}
		if refused == nil {
			if done, err := o.goOn(ctx, s, d); done || err != nil {
				return err
			}
		}
		if !o.structured() {
			fmt.Fprintln(o.app.streams.Err, withoutNext(o.document(d).Text(o.style(o.app.streams.Err))))
		}
		if refused != nil {
			return refused
		}
		if err := o.confirm(ctx, "Roll now?", o.words("upgrade")); err != nil {
			return err
		}
		run, err := s.Start(ctx, d.Roll.Draft, operation.StartOptions{By: requester(), Accepted: o.accepted, StallLimit: o.stallLimit})
		if err != nil {
			return err
		}
		return (&drive{global: o.global, session: s, release: o.image}).follow(ctx, run, d.Roll.Spec)
	})
}

// goOn continues the open run of the very same image, if there is one.
func (o *nodesUpgradeOptions) goOn(ctx context.Context, s session, d *operation.NodeDraft) (bool, error) {
	open := d.Roll.Open
	if open == nil || !d.Roll.Own {
		return false, nil
	}
	o.tell("Run %s to this image has not ended: going on with it", open.Name)
	if err := o.confirm(ctx, "Go on now?", o.words("upgrade")); err != nil {
		return true, err
	}
	return true, resume(ctx, o.global, s, open.Name, o.image)
}
