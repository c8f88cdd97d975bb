// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// verifier looks at a management cluster when nothing is to be changed. It writes nothing.
type verifier interface {
	// Verify looks whether everything works as the last run left it, and whether anything would replace Machines later.
	Verify(ctx context.Context) (*operation.Verification, error)
}

type verifyOptions struct{ *global }

func verifyCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Look whether all works as the last run left it, and whether anything would replace Machines later",
		Long: "Compares every object of every component with what the last completed run made of it, calls its webhooks, checks its\n" +
			"certificates and leaders; and compares every MachineDeployment with its newest MachineSet, and every control plane with its\n" +
			"Machines: a difference replaces Machines at the next change of replicas, perhaps days after an upgrade. Each MachineDeployment\n" +
			"is scaled as a dry run on the API server. Nothing is written.\n\nThe exit code is 5 when something is found that needs a decision.",
		Args: arguments(0, 0, "nothing"),
		RunE: runs(g, &verifyOptions{global: g}),
	}
}

// Complete has nothing to fill in.
func (o *verifyOptions) Complete([]string) error { return nil }

// Validate has nothing to refuse.
func (o *verifyOptions) Validate() error { return nil }

// Run looks, and shows what was found; what needs a decision is an error besides.
func (o *verifyOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		v, err := s.Verify(ctx)
		if err != nil {
			return err
		}
		d := &render.Verification{
			Run: v.Run, Components: v.Components, Clusters: v.Clusters, Machines: v.Machines, Note: v.Note,
			Findings: v.Findings, Blocking: check.Blocking(v.Findings, o.accepted), Accepted: o.accepted, Next: o.prompt("status"),
		}
		if len(d.Blocking) > 0 {
			d.Next = o.prompt("verify") + "   (once that is decided)"
		}
		if err := o.write(d); err != nil {
			return err
		}
		return undecided(d)
	})
}

// undecided is the error for what needs a decision, nil if nothing does.
func undecided(d *render.Verification) error {
	if len(d.Blocking) == 0 {
		return nil
	}
	first := d.Blocking[0]
	p := &problem.Error{Reason: first.ID, Message: first.Summary, Exit: problem.ExitFailed}
	if more := len(d.Blocking) - 1; more > 0 {
		p.Message += fmt.Sprintf(" (and %d more)", more)
	}
	return p.WithRemedy("%s", first.Remedy)
}
