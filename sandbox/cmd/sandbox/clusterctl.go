// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

func newClusterctlCommand(s streams) *cobra.Command {
	o := &location{}
	c := &cobra.Command{
		Use:   "clusterctl -- ARGS",
		Short: "Run the sandbox's clusterctl with its kubeconfig and local provider repository",
		Example: `  sandbox clusterctl -- describe cluster fleet-1
  sandbox clusterctl -- upgrade plan`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := o.layout()
			if err != nil {
				return err
			}
			spec, err := supervisor.ReadSpec(l)
			if err != nil {
				return o.explain(fmt.Errorf("%w: %w", supervisor.ErrNotRunning, err))
			}
			if spec.Inputs.Clusterctl == "" {
				return hint(errors.New("this sandbox was started with --no-capi and has no clusterctl"), "start one with Cluster API")
			}
			return runClusterctl(c.Context(), s, l, spec, args...)
		},
	}
	o.addFlags(c)
	return c
}

// runClusterctl runs clusterctl on the user's streams. Its version check asks the internet, so it is switched off.
func runClusterctl(ctx context.Context, s streams, l supervisor.Layout, spec supervisor.Spec, args ...string) error {
	cmd := clusterctl(ctx, l, spec, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.errOut
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return exitStatus(exit.ExitCode())
	}
	if err != nil {
		return fmt.Errorf("run clusterctl: %w", err)
	}
	return nil
}

func clusterctl(ctx context.Context, l supervisor.Layout, spec supervisor.Spec, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, spec.Inputs.Clusterctl, append(args, "--config", spec.Inputs.Repository)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+controlplane.FilesIn(l.Dir).Kubeconfig(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	return cmd
}
