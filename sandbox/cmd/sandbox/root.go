// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
)

func newRoot(s streams, clk clock.WithTicker) *cobra.Command {
	root := &cobra.Command{
		Use:   "sandbox",
		Short: "A real Kubernetes management cluster on one machine, from source, without a container engine",
		Long: `sandbox builds Kubernetes, Cluster API and cert-manager from their Go modules and runs them as plain processes in
namespaces of their own. No root and no container engine is needed, and several sandboxes run side by side.`,
		Example:       "  sandbox up --capi v1.13.4 --clusters 1 --control-planes 3 --workers 3\n  export KUBECONFIG=$(sandbox kubeconfig)\n  sandbox down",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.errOut)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return hint(usageError{err}, "run `%s --help`", c.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newBuildCommand(s, clk),
		newUpCommand(s, clk),
		newDownCommand(s, clk),
		newStatusCommand(s, clk),
		newKubeconfigCommand(s),
		newAuditCommand(s, clk),
		newLogsCommand(s, clk),
		newClusterctlCommand(s),
		newExecCommand(s),
		newImageCommand(s),
		newHostCommand(s),
		newNodeCommand(s),
		newReleaseCommand(s, clk),
		newLoadCommand(s, clk),
		newSuperviseCommand(clk),
	)
	for _, c := range root.Commands() {
		c.Args = usageArgs(c.Args)
		for _, sub := range c.Commands() {
			sub.Args = usageArgs(sub.Args)
		}
	}
	return root
}

// usageArgs makes a wrong number of arguments a usage error. Commands take none unless they say so.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		check = cobra.NoArgs
	}
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return hint(usageError{err}, "run `%s --help`", c.CommandPath())
		}
		return nil
	}
}

// outputFormat checks the -o flag.
func outputFormat(o string) error {
	if o == "text" || o == "json" {
		return nil
	}
	return usageError{fmt.Errorf("-o %s: the formats are text and json", o)}
}
