// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

func newKubeconfigCommand(s streams) *cobra.Command {
	o := &location{}
	c := &cobra.Command{
		Use:     "kubeconfig",
		Short:   "Print the path of the sandbox's kubeconfig file",
		Example: "  export KUBECONFIG=$(sandbox kubeconfig)",
		RunE: func(*cobra.Command, []string) error {
			l, err := o.layout()
			if err != nil {
				return err
			}
			path := controlplane.FilesIn(l.Dir).Kubeconfig()
			if _, err := os.Stat(path); err != nil {
				return o.explain(fmt.Errorf("%w: %w", supervisor.ErrNotRunning, err))
			}
			_, err = fmt.Fprintln(s.out, path)
			return err //nolint:wrapcheck // says "write /dev/stdout"
		},
	}
	o.addFlags(c)
	return c
}
