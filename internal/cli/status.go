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
	"github.com/capstan-dev/capstan/internal/world"
)

// watchPause is how long a watch waits between two looks.
const watchPause = time.Second

type statusOptions struct {
	*global
	watch bool
}

func statusCommand(g *global) *cobra.Command {
	o := &statusOptions{global: g}
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what is installed, what runs, and what is wrong",
		Args:  arguments(0, 0, "nothing"),
		RunE:  runs(g, o),
	}
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "look again every second, until Ctrl-C")
	return c
}

// Complete has nothing to fill in.
func (o *statusOptions) Complete([]string) error { return nil }

// Validate has nothing to refuse.
func (o *statusOptions) Validate() error { return nil }

// Run looks once, or until it is interrupted.
func (o *statusOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		st, err := s.Status(ctx)
		if err != nil {
			return err
		}
		if !o.watch {
			d := o.document(ctx, st)
			if err := o.write(d); err != nil {
				return err
			}
			return behind(d)
		}
		return o.follow(ctx, s, st)
	})
}

// behind is the fault of pools that have finished a roll to another version than they ask for: nothing else would tell.
func behind(d *render.Status) error {
	faults := d.Nodes.Faults()
	if len(faults) == 0 {
		return nil
	}
	message := capital(faults[0])
	if more := len(faults) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	p := &problem.Error{Reason: "PoolBehind", Message: message, Exit: problem.ExitFailed}
	return p.WithRemedy("capstan explain CAP-POOL-BEHIND")
}

func (o *statusOptions) document(ctx context.Context, st *operation.Status) *render.Status {
	out := &render.Status{
		World: st.World, PlatformVersion: st.PlatformVersion, Open: st.Open, Last: st.Last, Driver: st.Driver, Now: st.At, Next: o.prompt,
	}
	if st.Plan != nil {
		out.Plan = &st.Plan.Spec
	}
	if st.Nodes != nil {
		out.Nodes = &render.Nodes{Seen: st.Nodes, Now: st.At}
		for _, topic := range []world.Topic{world.TopicNodes, world.TopicPauses} {
			if why, failed := st.Nodes.Failed(topic); failed && out.Nodes.Error == "" {
				out.Nodes.Error = string(topic) + ": " + why
			}
		}
	}
	if st.Driver != "" {
		out.Driver += silent(st.At, st.DriverRenewed)
	}
	if st.WorldError != nil {
		out.World, out.WorldError = nil, o.translate(ctx, st.WorldError).Message
	}
	return out
}

// follow shows the status each time it changes: redrawn on a terminal, otherwise one line or one document.
func (o *statusOptions) follow(ctx context.Context, s reader, st *operation.Status) error {
	redraw := render.NewRedraw(o.app.streams.Out)
	last := ""
	for {
		if st != nil {
			d := o.document(ctx, st)
			line := d.Summary()
			switch {
			case !o.structured() && render.IsTerminal(o.app.streams.Out):
				redraw(d.Text(o.style(o.app.streams.Out)))
			case line == last && !o.structured():
			case o.structured():
				if err := o.write(d); err != nil {
					return err
				}
			default:
				fmt.Fprintf(o.app.streams.Out, "%s  %s\n", st.At.UTC().Format(time.TimeOnly), line)
			}
			last = line
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.app.clock.After(watchPause):
		}
		var err error
		if st, err = s.Status(ctx); err != nil && ctx.Err() == nil {
			o.tell("%s", o.translate(ctx, err).Message)
		}
	}
}
