// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/internal/bundle"
	"github.com/capstan-dev/capstan/sandbox/metal"
)

// releaseOptions are the options of `sandbox release`.
type releaseOptions struct {
	streams     streams
	clock       clock.WithTicker
	name        string
	capi        string
	certManager string
	upgradeFrom []string
	metal3      string
	out         string
}

func newReleaseCommand(s streams, clk clock.WithTicker) *cobra.Command {
	o := &releaseOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:     "release --out DIR",
		Short:   "Write a Capstan release directory of a Cluster API version",
		Example: "  sandbox release --capi v1.14.2 --out releases/capi-v1.14.2",
		RunE: func(c *cobra.Command, _ []string) error {
			if o.out == "" {
				return usagef("say where to write the release: --out DIR")
			}
			if o.metal3 != "" && !slices.Contains(metal.Versions(), o.metal3) {
				return usagef("--metal3 %s: there are %s", o.metal3, strings.Join(metal.Versions(), " and "))
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.capi, "capi", build.NextClusterAPI, "Cluster API version")
	f.StringVar(&o.certManager, "cert-manager", "", "cert-manager version (default: the one clusterctl of the Cluster API version installs)")
	f.StringVar(&o.metal3, "metal3", "", "Metal3 version, for a sandbox with bare metal: takes the place of the docker provider")
	f.StringVar(&o.name, "release-name", "", "name of the release (default: capi- and the version)")
	f.StringSliceVar(&o.upgradeFrom, "upgrade-from", nil, "versions of releases it can be reached from (default: any)")
	f.StringVar(&o.out, "out", "", "directory to write")
	return c
}

func (o *releaseOptions) run(ctx context.Context) error {
	a, err := newArtifacts(newProgress(o.streams.errOut, o.clock), o.clock)
	if err != nil {
		return err
	}
	p, err := a.platform(ctx, o.capi, o.certManager)
	if err != nil {
		return err
	}
	file, err := bundle.Release{Name: o.name, ClusterAPI: p.capi, CertManager: p.certManager, Metal: o.metal3, UpgradeFrom: o.upgradeFrom}.Write(o.out)
	if err != nil {
		return err //nolint:wrapcheck // names the release
	}
	_, err = fmt.Fprintln(o.streams.out, file)
	return err //nolint:wrapcheck // says "write /dev/stdout"
}
