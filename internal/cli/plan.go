// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
	"github.com/capstan-dev/capstan/internal/store"
)

const releaseHelp = "RELEASE is a directory, a file, or an oci:// reference."

// making are the options that say how a plan is made.
type making struct {
	release   string
	installed string
	keep      bool
	noMigrate bool
	compat    compatOptions
	wait      waiting
}

func (m *making) flags(f *pflag.FlagSet) {
	f.StringVar(&m.installed, "installed", "", "the `RELEASE` that is installed now: tells which settings of live objects are your own")
	f.BoolVar(&m.keep, "keep-settings", false, "carry your changes of live objects (arguments, feature gates, environment, replicas, resources, …) over into the release")
	f.BoolVar(&m.noMigrate, "no-migrate", false, "leave stored objects as they are: a release that needs them rewritten or repaired is refused, with the steps to do it by hand")
	m.compat.flags(f)
	m.wait.flags(f)
}

// words are the words of a command on the release, with the same options and acceptances.
func (m *making) words(g *global, verb string) []string {
	words := []string{verb, m.release}
	if m.installed != "" {
		words = append(words, "--installed", m.installed)
	}
	if m.keep {
		words = append(words, "--keep-settings")
	}
	if m.noMigrate {
		words = append(words, "--no-migrate")
	}
	if g.offline {
		words = append(words, "--offline")
	}
	words = append(words, m.compat.words()...)
	return append(words, g.acceptances()...)
}

type planOptions struct {
	*global
	making
	diff bool
	save string
}

func planCommand(g *global) *cobra.Command {
	o := &planOptions{global: g}
	c := &cobra.Command{
		Use:   "plan RELEASE",
		Short: "Show what an upgrade would do; writes nothing to the cluster",
		Long:  "Fetches and checks the release, compares it with what is installed, and shows what an upgrade would do and what\nspeaks against it. Nothing is written to the cluster.\n\n" + releaseHelp,
		Args:  arguments(1, 1, "a RELEASE"),
		RunE:  runs(g, o),
	}
	o.making.flags(c.Flags())
	g.offlineFlag(c.Flags())
	c.Flags().BoolVar(&o.diff, "diff", false, "show what changes in each object; values of Secrets are hidden")
	c.Flags().StringVar(&o.save, "save", "", "save the plan to `FILE`, to be run by `capstan upgrade --plan FILE`; it may hold Secrets")
	return c
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
		if err := o.wait.settle(ctx, o.global, s); err != nil {
			return err
		}
		d, err := draft(ctx, s, &o.making, o.diff)
		if err != nil {
			return err
		}
		if o.save != "" {
			if err := o.savePlan(d); err != nil {
				return err
			}
		}
		if err := o.write(d.document(o.global, o.save)); err != nil {
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
	// making is how the plan was made, or how its like can be made anew.
	making    *making
	continues bool
}

func draft(ctx context.Context, s planner, m *making, diff bool) (*drafted, error) {
	bundle, err := s.Load(ctx, m.release)
	if err != nil {
		return nil, err
	}
	o := operation.DraftOptions{KeepSettings: m.keep, Diff: diff, NoMigrate: m.noMigrate}
	if err := m.compat.into(&o); err != nil {
		return nil, err
	}
	if m.installed != "" {
		if o.Installed, err = s.Load(ctx, m.installed); err != nil {
			return nil, err
		}
	}
	d, err := s.Draft(ctx, bundle, o)
	if err != nil {
		return nil, err
	}
	continues, err := s.Continues(ctx, d)
	if err != nil {
		return nil, err
	}
	return &drafted{Draft: d, making: m, continues: continues}, nil
}

// refusal is why the plan would not be started, nil if it would be.
func (d *drafted) refusal(g *global) error {
	return operation.Admit(d.Draft, operation.StartOptions{Accepted: g.accepted})
}

// document returns the plan's screen; file is where the plan was saved, if it was.
func (d *drafted) document(g *global, file string) *render.Plan {
	out := &render.Plan{
		Name: store.PlanName(d.Spec.Digest), Spec: d.Spec, Accepted: g.accepted, Diff: d.Diff, Noted: d.Noted,
		Blocking: check.Blocking(d.Spec.Findings, g.accepted), Next: g.prompt(d.making.words(g, "upgrade")...),
	}
	if file != "" {
		out.Next = g.prompt("upgrade", "--plan", file)
	}
	if d.continues {
		out.Goes, out.Blocking = d.Open, nil
		return out
	}
	refused := d.refusal(g)
	if p, ok := errors.AsType[*problem.Error](refused); ok {
		out.Refusal, out.Next = p.Message, g.prompt("plan", d.making.release)
	}
	if refused == nil && len(d.Spec.Steps) == 0 {
		out.Next = g.prompt("status")
	}
	return out
}

// acceptances are the words that accept the same findings again.
func (g *global) acceptances() []string {
	var words []string
	for _, a := range g.accepted {
		words = append(words, "--accept", a.ID+"="+a.Reason)
	}
	return words
}
