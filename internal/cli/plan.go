// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
	"github.com/capstan-dev/capstan/internal/store"
)

const releaseHelp = "RELEASE is a directory, a file, or an oci:// reference."

type planOptions struct {
	*global
	release string
}

func planCommand(g *global) *cobra.Command {
	o := &planOptions{global: g}
	return &cobra.Command{
		Use:   "plan RELEASE",
		Short: "Show what an upgrade would do; writes nothing to the cluster",
		Long:  "Fetches and checks the release, compares it with what is installed, and shows what an upgrade would do and what\nspeaks against it. Nothing is written to the cluster.\n\n" + releaseHelp,
		Args:  arguments(1, 1, "a RELEASE"),
		RunE:  runs(g, o),
	}
}

// Complete takes the release.
func (o *planOptions) Complete(args []string) error {
	o.release = args[0]
	return nil
}

// Validate has nothing to refuse.
func (o *planOptions) Validate() error { return nil }

// Run makes the plan and shows it; a plan that would be refused is an error besides.
func (o *planOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		d, err := draft(ctx, s, o.release)
		if err != nil {
			return err
		}
		if err := o.write(d.document(o.global, o.release)); err != nil {
			return err
		}
		if d.continues {
			return nil
		}
		return d.refusal(o.global)
	})
}

// drafted is a plan with what it means for the open run.
type drafted struct {
	*operation.Draft
	continues bool
}

func draft(ctx context.Context, s planner, ref string) (*drafted, error) {
	bundle, err := s.Load(ctx, ref)
	if err != nil {
		return nil, err
	}
	d, err := s.Draft(ctx, bundle)
	if err != nil {
		return nil, err
	}
	continues, err := s.Continues(ctx, d)
	if err != nil {
		return nil, err
	}
	return &drafted{Draft: d, continues: continues}, nil
}

// refusal is why the plan would not be started, nil if it would be.
func (d *drafted) refusal(g *global) error {
	return operation.Admit(d.Draft, operation.StartOptions{Accepted: g.accepted})
}

// document returns the plan's screen.
func (d *drafted) document(g *global, ref string) *render.Plan {
	out := &render.Plan{
		Name: store.PlanName(d.Spec.Digest), Spec: d.Spec, Accepted: g.accepted,
		Blocking: check.Blocking(d.Spec.Findings, g.accepted), Next: g.prompt(g.upgradeWords(ref)...),
	}
	if d.continues {
		out.Goes, out.Blocking = d.Open, nil
		return out
	}
	refused := d.refusal(g)
	if p, ok := errors.AsType[*problem.Error](refused); ok {
		out.Refusal, out.Next = p.Message, g.prompt("plan", ref)
	}
	if refused == nil && len(d.Spec.Steps) == 0 {
		out.Next = g.prompt("status")
	}
	return out
}

// upgradeWords are the words of the upgrade with the same acceptances.
func (g *global) upgradeWords(ref string) []string {
	words := []string{"upgrade", ref}
	for _, a := range g.accepted {
		words = append(words, "--accept", a.ID+"="+a.Reason)
	}
	return words
}
