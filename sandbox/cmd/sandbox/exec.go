// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

func newExecCommand(s streams) *cobra.Command {
	o := &location{}
	c := &cobra.Command{
		Use:     "exec -- CMD [ARGS]",
		Short:   "Run a command inside the sandbox's namespaces",
		Example: "  sandbox exec -- ip addr\n  sandbox exec -- curl -k https://10.244.0.1:6443/version",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := o.layout()
			if err != nil {
				return err
			}
			dir, err := os.Getwd()
			if err != nil {
				return fmt.Errorf("find working directory: %w", err)
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return fmt.Errorf("find %s: %w", args[0], err)
			}
			env := append(os.Environ(), "KUBECONFIG="+controlplane.FilesIn(l.Dir).AdminKubeconfig())
			code, err := supervisor.NewClient(l).Exec(c.Context(), append([]string{path}, args[1:]...), env, dir,
				[3]*os.File{s.in, os.Stdout, os.Stderr})
			if err != nil {
				return o.explain(err)
			}
			if code != 0 {
				return exitStatusError(code)
			}
			return nil
		},
	}
	o.addFlags(c)
	return c
}
