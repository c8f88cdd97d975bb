// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// buildOptions are the options of `sandbox build`.
type buildOptions struct {
	streams    streams
	clock      clock.WithTicker
	kubernetes string
	capi       []string
	assets     bool
}

func newBuildCommand(s streams, clk clock.WithTicker) *cobra.Command {
	o := &buildOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "build",
		Short: "Build everything a sandbox needs into the cache",
		Long: `build builds etcd, Kubernetes, Cluster API, clusterctl, cert-manager and simulated bare metal from source, and makes images and manifests
of them. What is in the cache already is not built again. 'sandbox up' does the same for what it needs.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().StringVar(&o.kubernetes, "kubernetes", build.DefaultKubernetes, "Kubernetes version")
	c.Flags().BoolVar(&o.assets, "print-assets", false,
		"build only etcd and Kubernetes, and print a directory with both, as KUBEBUILDER_ASSETS wants it")
	c.Flags().StringSliceVar(&o.capi, "capi", []string{build.DefaultClusterAPI, build.NextClusterAPI}, "Cluster API versions")
	return c
}

func (o *buildOptions) run(ctx context.Context) error {
	p := newProgress(o.streams.errOut, o.clock)
	a, err := newArtifacts(p, o.clock)
	if err != nil {
		return err
	}
	var in supervisor.Inputs
	if err := a.controlPlane(ctx, o.kubernetes, &in); err != nil {
		return err
	}
	if o.assets {
		dir, err := a.assets(ctx, o.kubernetes, in)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(o.streams.out, dir)
		return err //nolint:wrapcheck // says "write /dev/stdout"
	}
	if _, err := a.testPod(ctx); err != nil {
		return err
	}
	if _, err := a.metal(ctx); err != nil {
		return err
	}
	for _, v := range o.capi {
		if _, err := a.platform(ctx, v, ""); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.streams.errOut, "All is built after %s, in %s\nNext: sandbox up\n", seconds(o.clock.Since(p.begin)), a.builder.CacheDir)
	return nil
}
