// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
	"github.com/capstan-dev/capstan/sandbox/metal"
)

// cleanupLimit bounds what is done after an interrupt.
const cleanupLimit = 30 * time.Second

// upOptions are the options of `sandbox up`.
type upOptions struct {
	location
	streams streams
	clock   clock.WithTicker

	spec   supervisor.Spec
	noCAPI bool
	metal  bool
	offer  []string

	layout    supervisor.Layout
	daemon    daemon
	platforms []platform
}

func newUpCommand(s streams, clk clock.WithTicker) *cobra.Command {
	o := &upOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "up",
		Short: "Build what is missing and start a sandbox",
		Long: `up builds what is not in the cache yet, starts the control plane and a node, installs Cluster API with clusterctl, and creates
workload clusters. It returns when all of it is up; the sandbox runs on in the background until 'sandbox down'.`,
		Example: `  sandbox up --capi v1.13.4 --clusters 1 --control-planes 3 --workers 3
  sandbox up --metal --hosts 5 --control-planes 3 --workers 2
  sandbox up --name bare --no-capi`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.addFlags(c)
	f := c.Flags()
	f.StringVar(&o.spec.Kubernetes, "kubernetes", build.DefaultKubernetes, "Kubernetes version of the management cluster")
	f.StringVar(&o.spec.CAPI, "capi", build.DefaultClusterAPI, "Cluster API version of core, kubeadm bootstrap, kubeadm control plane and docker provider")
	f.StringVar(&o.spec.CertManager, "cert-manager", "", "cert-manager version (default: the one clusterctl of the Cluster API version installs)")
	f.IntVar(&o.spec.Clusters, "clusters", 0, "number of workload clusters: fleet-1, fleet-2, ... in namespace default")
	f.IntVar(&o.spec.ControlPlanes, "control-planes", 3, "control plane machines of each workload cluster")
	f.IntVar(&o.spec.Workers, "workers", 3, "worker machines of each workload cluster")
	f.BoolVar(&o.metal, "metal", false, "workload clusters on simulated bare metal: metal-1, metal-2, ... each in a namespace of its name with its hosts")
	f.IntVar(&o.spec.Hosts, "hosts", 0, "with --metal, hosts of each workload cluster (default: as many as machines)")
	f.StringVar(&o.spec.Metal, "metal3", metal.DefaultVersion, "with --metal, version of the Metal3 provider")
	f.StringVar(&o.spec.NodeMemory, "node-memory", "8Gi", "memory the node offers to Pods")
	f.StringVar(&o.spec.NodeCPU, "node-cpu", "4", "CPUs the node offers to Pods")
	f.StringSliceVar(&o.offer, "offer", []string{build.NextClusterAPI}, "further Cluster API versions whose images and manifests the sandbox has, to upgrade to")
	f.BoolVar(&o.noCAPI, "no-capi", false, "leave out cert-manager and Cluster API")
	return c
}

func (o *upOptions) complete() error {
	var err error
	if o.layout, err = o.location.layout(); err != nil {
		return err
	}
	o.spec.Name = o.name
	if o.noCAPI {
		o.spec.CAPI, o.spec.CertManager = "", ""
	}
	if err := o.completeMetal(); err != nil {
		return err
	}
	// The version to install comes first, and none comes twice.
	offer := []string{o.spec.CAPI}
	for _, v := range o.offer {
		if !slices.Contains(offer, v) {
			offer = append(offer, v)
		}
	}
	o.offer = offer
	if o.spec.Clusters == 0 {
		o.spec.ControlPlanes, o.spec.Workers = 0, 0
	}
	o.daemon = daemon{layout: o.layout, clock: o.clock}
	return nil
}

func (o *upOptions) validate() error {
	version := regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)
	versions := []struct{ flag, value string }{{"--kubernetes", o.spec.Kubernetes}, {"--cert-manager", o.spec.CertManager}, {"--capi", o.spec.CAPI}}
	for _, v := range o.offer {
		versions = append(versions, struct{ flag, value string }{"--offer", v})
	}
	for _, v := range versions {
		if v.value != "" && !version.MatchString(v.value) {
			return usagef("%s %q: write a version like v1.2.3", v.flag, v.value)
		}
	}
	switch {
	case o.spec.Clusters < 0 || o.spec.Workers < 0:
		return usagef("--clusters and --workers can't be negative")
	case o.spec.Clusters > 0 && o.noCAPI:
		return usagef("--clusters needs Cluster API: leave out --no-capi")
	case o.spec.Clusters > 0 && (o.spec.ControlPlanes < 1 || o.spec.ControlPlanes%2 == 0):
		return usagef("--control-planes %d: etcd needs an odd number of members", o.spec.ControlPlanes)
	}
	if o.metal {
		if err := o.validateMetal(); err != nil {
			return err
		}
	}
	for flag, q := range map[string]string{"--node-memory": o.spec.NodeMemory, "--node-cpu": o.spec.NodeCPU} {
		if v, err := resource.ParseQuantity(q); err != nil || v.Sign() <= 0 {
			return usagef("%s %q: write a quantity like 4 or 8Gi", flag, q)
		}
	}
	return nil
}

func (o *upOptions) run(ctx context.Context) error {
	p := newProgress(o.streams.errOut, o.clock)
	if o.daemon.alive() {
		return o.already(ctx, p)
	}
	// Before minutes of building: can the sandbox live there at all?
	if err := os.MkdirAll(o.layout.Dir, 0o700); err != nil {
		return hint(fmt.Errorf("make the sandbox's directory: %w", err), "pass --dir with a directory you may write to")
	}
	a, err := newArtifacts(p, o.clock)
	if err != nil {
		return err
	}
	inputs, platforms, err := a.ensure(ctx, o.spec, o.offer)
	if err != nil {
		return err
	}
	o.spec.Inputs, o.platforms = inputs, platforms
	held, err := lock(o.layout)
	if errors.Is(err, errLocked) {
		return o.already(ctx, p)
	}
	if err != nil {
		return err
	}
	err = o.start(ctx, p, held)
	if err == nil {
		err = o.fill(ctx, p)
	}
	if ctx.Err() != nil {
		return o.abandon(ctx, p)
	}
	return err
}

// start brings up the control plane and the node. A sandbox that does not come up is taken down again; its logs stay.
func (o *upOptions) start(ctx context.Context, p *progress, held *os.File) error {
	defer held.Close()
	if err := o.layout.Clean(false); err != nil {
		return err
	}
	var err error
	if o.spec.Inputs.Clusterctl, err = writeRepositories(o.layout, o.platforms, o.spec.Metal != ""); err != nil {
		return err
	}
	s := p.step("Start control plane and node")
	if err := o.daemon.start(o.spec, held); err != nil {
		return s.end(err, "") // says itself what to do
	}
	_ = held.Close() // from here on the supervisor holds the lock alone
	if err := s.end(o.daemon.await(ctx, s.note), "Kubernetes "+o.spec.Kubernetes); err != nil && ctx.Err() == nil {
		return hint(errors.Join(err, o.takeDown(ctx)), "read the logs in %s; `sandbox up%s` tries again", o.layout.Logs(), o.flags())
	}
	return ctx.Err() //nolint:wrapcheck // an interrupt, told by the caller
}

// fill installs providers and workload clusters into a running control plane, as far as they were asked for, and marks the sandbox done.
func (o *upOptions) fill(ctx context.Context, p *progress) error {
	k, err := newKube(o.layout)
	if err != nil {
		return err
	}
	if o.spec.CAPI != "" {
		if err := o.installProviders(ctx, p, k); err != nil {
			return o.left(err)
		}
	}
	if o.metal {
		if err := o.prepareMetal(ctx, p, k); err != nil {
			return o.left(err)
		}
	}
	if o.spec.Clusters > 0 {
		if err := o.createClusters(ctx, p, k); err != nil {
			return o.left(err)
		}
	}
	if err := os.WriteFile(o.layout.Done(), nil, 0o600); err != nil {
		return fmt.Errorf("note that the sandbox is complete: %w", err)
	}
	o.summary(p)
	return nil
}

// left says what to do with a sandbox that runs but is not what was asked for.
func (o *upOptions) left(err error) error {
	return hint(err, "the sandbox is left running: look with `sandbox status%[1]s`, go on with the same `sandbox up`, or end it with `sandbox down%[1]s`",
		o.flags())
}

// already deals with a sandbox that runs in the directory.
func (o *upOptions) already(ctx context.Context, p *progress) error {
	st, err := supervisor.NewClient(o.layout).Status(ctx)
	if err != nil {
		return hint(fmt.Errorf("%s is in use, but no supervisor answers there", o.layout.Dir),
			"wait if another `sandbox up` is starting it, else run `sandbox down%s`", o.flags())
	}
	if !st.Spec.SameAs(o.spec) {
		return hint(fmt.Errorf("a sandbox runs in %s, but it is not what was asked for: it has %s", o.layout.Dir, describe(st.Spec)),
			"run `sandbox down%s` first, or choose another --name", o.flags())
	}
	o.spec = st.Spec
	_, err = os.Stat(o.layout.Done())
	if err == nil {
		fmt.Fprintf(o.streams.errOut, "The sandbox in %s is up already\n", o.layout.Dir)
		o.summary(p)
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the sandbox's state: %w", err)
	}
	// An earlier `up` did not get to the end. Every step is safe to repeat.
	s := p.step("Wait for control plane and node")
	if err := s.end(o.daemon.await(ctx, s.note), ""); err != nil {
		return err
	}
	return o.fill(ctx, p)
}

// abandon takes the sandbox down after an interrupt.
func (o *upOptions) abandon(ctx context.Context, p *progress) error {
	s := p.step("Interrupted: clean up")
	return errors.Join(context.Cause(ctx), s.end(o.takeDown(ctx), ""))
}

// takeDown ends the sandbox even when ctx is over.
func (o *upOptions) takeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	if err := o.daemon.stop(ctx); err != nil {
		return err
	}
	return o.layout.Clean(true)
}

func (o *upOptions) summary(p *progress) {
	fmt.Fprintf(o.streams.errOut, "Sandbox %s is up after %s: %s\n", o.spec.Name, seconds(o.clock.Since(p.begin)), describe(o.spec))
	fmt.Fprintf(o.streams.out, "export KUBECONFIG=%s\n", controlplane.FilesIn(o.layout.Dir).Kubeconfig())
	fmt.Fprintf(o.streams.errOut, "Next: export KUBECONFIG=$(sandbox kubeconfig%[1]s); kubectl get pods -A; sandbox status%[1]s; sandbox down%[1]s\n", o.flags())
}

// describe says in one line what a sandbox is made of.
func describe(s supervisor.Spec) string {
	text := "Kubernetes " + s.Kubernetes
	if s.CAPI == "" {
		return text + ", no Cluster API"
	}
	text += ", Cluster API " + s.CAPI
	if s.Metal != "" {
		text += fmt.Sprintf(", Metal3 %s with %d hosts", s.Metal, s.Hosts*s.Clusters)
	}
	if s.Clusters == 0 {
		return text + ", no workload cluster"
	}
	noun := "clusters"
	if s.Clusters == 1 {
		noun = "cluster"
	}
	return fmt.Sprintf("%s, %d workload %s of %d + %d machines", text, s.Clusters, noun, s.ControlPlanes, s.Workers)
}
