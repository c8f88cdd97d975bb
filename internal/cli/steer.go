// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// runOptions are those of commands about one run.
type runOptions struct {
	*global
	run string
	do  func(ctx context.Context, o *runOptions, s session) error
}

// Complete takes the run's name; without one it is the run that has not ended.
func (o *runOptions) Complete(args []string) error {
	if len(args) > 0 {
		o.run = args[0]
	}
	return nil
}

// Validate has nothing to refuse.
func (o *runOptions) Validate() error { return nil }

// Run does it.
func (o *runOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error { return o.do(ctx, o, s) })
}

func runCommand(g *global, name, short, long string, do func(context.Context, *runOptions, session) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " [RUN]", Short: short, Long: long + "\n\nWithout RUN it is the run that has not ended.",
		Args: arguments(0, 1, "at most one RUN"),
		RunE: runs(g, &runOptions{global: g, do: do}),
	}
}

func resumeCommand(g *global) *cobra.Command {
	return runCommand(g, "resume", "Go on with a run that stopped, was paused or was interrupted",
		"Goes on where the run stands, judging from the cluster what is done. Nothing is done twice.",
		func(ctx context.Context, o *runOptions, s session) error { return resume(ctx, o.global, s, o.run, "") })
}

func resume(ctx context.Context, g *global, s session, name, ref string) error {
	run, err := s.Resume(ctx, name)
	if err != nil {
		return err
	}
	stored, err := s.Plan(ctx, run)
	if err != nil {
		return err
	}
	return (&drive{global: g, session: s, release: ref}).follow(ctx, run, &stored.Spec)
}

func pauseCommand(g *global) *cobra.Command {
	return runCommand(g, "pause", "Hold a run between two steps",
		"The process that drives the run ends after the step at hand; nobody starts another until `capstan resume`.", pause)
}

func pause(ctx context.Context, o *runOptions, s session) error {
	run, err := s.Steer(ctx, o.run, v1alpha1.IntentPause)
	if err != nil {
		return err
	}
	return o.write(&render.Notice{
		Run: run.Name, Message: fmt.Sprintf("Paused: run %s to %s starts no further step", run.Name, run.Spec.To), Next: o.prompt("resume"),
	})
}

func abortCommand(g *global) *cobra.Command {
	return runCommand(g, "abort", "End a run where it is; what is done stays done",
		"The run ends between two steps. Nothing is rolled back: `capstan upgrade` goes from there to any release.", abort)
}

// abort ends the run itself, unless another process drives it, which then does.
func abort(ctx context.Context, o *runOptions, s session) error {
	run, err := s.Steer(ctx, o.run, v1alpha1.IntentAbort)
	if err != nil {
		return err
	}
	stored, err := s.Plan(ctx, run)
	if err != nil {
		return err
	}
	err = (&drive{global: o.global, session: s, wanted: render.ResultAborted}).follow(ctx, run, &stored.Spec)
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Reason == heldByAnother {
		return o.write(&render.Notice{
			Run: run.Name, Message: fmt.Sprintf("Run %s ends as soon as the process that drives it has finished its step", run.Name),
			Next: o.prompt("status", "-w"),
		})
	}
	return err
}

// heldByAnother is the reason of the store's refusal when another process drives runs.
const heldByAnother = "HeldByAnother"
