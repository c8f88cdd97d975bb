// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/sandbox/internal/bundle"
	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

func newClusterctlCommand(s streams) *cobra.Command {
	o := &location{}
	version := ""
	c := &cobra.Command{
		Use:   "clusterctl [--capi VERSION] -- ARGS",
		Short: "Run the sandbox's clusterctl with its kubeconfig and local provider repository",
		Example: `  sandbox clusterctl -- describe cluster fleet-1
  sandbox clusterctl -- upgrade plan
  sandbox clusterctl --capi v1.14.2 -- upgrade apply --contract v1beta2`,
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
			if version == "" {
				version = spec.CAPI
			}
			cmd, err := clusterctl(c.Context(), l, spec, version, args...)
			if err != nil {
				return err
			}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.errOut
			err = cmd.Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && c.Context().Err() == nil {
				return exitStatusError(exit.ExitCode())
			}
			if err != nil {
				return fmt.Errorf("run clusterctl: %w", err)
			}
			return nil
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&version, "capi", "", "which clusterctl to run (default: the version the sandbox was started with)")
	return c
}

// clusterctl prepares a run of the clusterctl of one Cluster API version against the sandbox.
func clusterctl(ctx context.Context, l supervisor.Layout, spec supervisor.Spec, version string, args ...string) (*exec.Cmd, error) {
	if spec.CAPI == "" {
		return nil, hint(errors.New("this sandbox was started with --no-capi and has no clusterctl"), "start one with Cluster API")
	}
	program, ok := spec.Inputs.Clusterctl[version]
	if !ok {
		return nil, usagef("--capi %s: this sandbox has clusterctl %s", version,
			strings.Join(slices.Sorted(maps.Keys(spec.Inputs.Clusterctl)), " and "))
	}
	cmd := exec.CommandContext(ctx, program.Path, append(args, "--config", program.Config)...)
	cmd.Env = append(append(os.Environ(), bundle.ClusterctlEnv()...), "KUBECONFIG="+controlplane.FilesIn(l.Dir).Kubeconfig())
	return cmd, nil
}
