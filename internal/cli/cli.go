// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line as a host of Capstan: it reads options, calls the use-cases of package operation, and
// hands what comes back to package render. It decides nothing about an upgrade, and never ends the process.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// closeLimit is how long giving the lease back may take.
const closeLimit = 5 * time.Second

// Streams are what a command reads from and writes to.
type Streams struct {
	// In answers questions.
	In io.Reader
	// Out takes what was asked for, Err everything else.
	Out, Err io.Writer
	// Getenv returns an environment variable, empty if it is not set. Nil means that there are none.
	Getenv func(string) string
}

// app is one call of the command line.
type app struct {
	streams Streams
	clock   clock.WithTicker
	connect func(g *global) (session, error)
}

// Run runs one command line and returns the exit code that is meant. Cancelling ctx stops between two requests; a run
// that is under way then stands still, and can be resumed.
func Run(ctx context.Context, streams Streams, args []string) problem.Exit {
	a := &app{streams: streams, clock: clock.RealClock{}}
	a.connect = a.connectCluster
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) problem.Exit {
	g := &global{app: a}
	root := a.root(g)
	root.SetArgs(args)
	root.SetIn(a.streams.In)
	root.SetOut(a.streams.Out)
	root.SetErr(a.streams.Err)
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return problem.ExitDone
	}
	p := g.translate(ctx, err)
	if !g.read { // the flags were perhaps not read to their end
		g.output = guessOutput(args)
	}
	a.report(g, err, complete(p, called.CommandPath()))
	return p.Exit
}

func (a *app) root(g *global) *cobra.Command {
	root := &cobra.Command{
		Use:   "capstan",
		Short: "Upgrades Cluster API platforms without touching a running workload cluster",
		Long: "Capstan upgrades what runs in a Cluster API management cluster, from one release to the next, and proves that no Machine\n" +
			"of a workload cluster was touched. It plans before it writes, can be interrupted and resumed at any time, and says why\n" +
			"when it stops.\n\nExit codes: 0 done, 1 error, 2 usage, 3 blocked before any change, 4 stopped part-way and resumable, 5 failed and needs\n" +
			"a decision, 130 interrupted.",
		SilenceErrors: true,
		SilenceUsage:  true,
		// How many letters may be wrong in a command for it to be suggested.
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return problem.Usage("BadFlag", "", "%s", capital(err.Error())).WithRemedy("%s --help", c.CommandPath())
	})
	g.flags(root.PersistentFlags())
	root.AddCommand(
		statusCommand(g), planCommand(g), nodesCommand(g), imageCommand(g), upgradeCommand(g), resumeCommand(g), pauseCommand(g), abortCommand(g),
		verifyCommand(g),
		historyCommand(g), explainCommand(g), versionCommand(g),
	)
	return root
}

func unknownCommand(c *cobra.Command, name string) error {
	p := problem.Usage("UnknownCommand", "", "There is no command %q", name)
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return p.WithRemedy("did you mean `capstan %s`?", strings.Join(near, "` or `capstan "))
	}
	return p.WithRemedy("capstan --help")
}

// command is what every command is made of.
type command interface {
	// Complete takes over the arguments and fills in what was not given.
	Complete(args []string) error
	// Validate refuses options that do not go together. It makes no request.
	Validate() error
	// Run does it.
	Run(ctx context.Context) error
}

// runs returns cobra's function for a command.
func runs(g *global, c command) func(*cobra.Command, []string) error {
	return func(cc *cobra.Command, args []string) error {
		for _, step := range []func() error{g.complete, g.validate, func() error { return c.Complete(args) }, c.Validate} {
			if err := step(); err != nil {
				return err
			}
		}
		return c.Run(cc.Context())
	}
}

// arguments refuses another number of arguments than a command takes.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return problem.Usage("MissingArgument", "", "%s needs %s", c.CommandPath(), what).WithRemedy("%s --help", c.CommandPath())
		case len(args) > most:
			return problem.Usage("UnexpectedArgument", "", "%s does not take %q", c.CommandPath(), args[most]).WithRemedy("%s --help", c.CommandPath())
		}
		return nil
	}
}

// screened is an error that has a screen of its own for people.
type screened struct {
	fault  *problem.Error
	screen string
}

// Error returns the fault's one line.
func (s *screened) Error() string { return s.fault.Error() }

// Unwrap returns the fault.
func (s *screened) Unwrap() error { return s.fault }

// report tells an error, as text or as one JSON object on a line.
func (a *app) report(g *global, err error, p *problem.Error) {
	s, hasScreen := errors.AsType[*screened](err)
	switch {
	case g.structured():
		enc := json.NewEncoder(a.streams.Err)
		enc.SetEscapeHTML(false)
		if encErr := enc.Encode(render.FaultObject{Error: p}); encErr != nil {
			fmt.Fprintln(a.streams.Err, p)
		}
	case hasScreen:
		fmt.Fprint(a.streams.Err, s.screen)
	default:
		fmt.Fprint(a.streams.Err, render.Fault(g.style(a.streams.Err), p))
	}
}

// guessOutput finds the wanted format in arguments that could not be parsed.
func guessOutput(args []string) string {
	for _, f := range render.Formats() {
		for _, form := range []string{"-o" + string(f), "-o=" + string(f), "--output=" + string(f)} {
			if slices.Contains(args, form) {
				return string(f)
			}
		}
		for i, arg := range args[:max(0, len(args)-1)] {
			if (arg == "-o" || arg == "--output") && args[i+1] == string(f) {
				return string(f)
			}
		}
	}
	return string(render.FormatText)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
