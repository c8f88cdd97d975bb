// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/sandbox/internal/workload"
)

const (
	availableLimit = 3 * time.Minute
	clustersLimit  = 8 * time.Minute
	// machineStartup is how long each part of a simulated machine takes to start: long enough to be seen, short enough to wait for.
	machineStartup = time.Second
)

// installProviders has the real clusterctl install cert-manager and the providers, so that the inventory is what clusterctl leaves, and waits
// until they are available.
func (o *upOptions) installProviders(ctx context.Context, p *progress, k kube) error {
	have, err := k.providers(ctx)
	if err != nil {
		return err
	}
	v := o.spec.CAPI
	if len(have) == 0 {
		s := p.step("Install cert-manager and Cluster API " + v)
		if err := s.end(o.clusterctlInit(ctx, s.note), "clusterctl init"); err != nil {
			return err
		}
	}
	s := p.step("Wait for the providers")
	return s.end(o.awaitDeployments(ctx, k, s.note), "all available")
}

func (o *upOptions) clusterctlInit(ctx context.Context, note func(string)) error {
	v := o.spec.CAPI
	cmd, err := clusterctl(ctx, o.layout, o.spec, v, "init", "--core", "cluster-api:"+v, "--bootstrap", "kubeadm:"+v,
		"--control-plane", "kubeadm:"+v, "--infrastructure", o.infrastructure())
	if err != nil {
		return err
	}
	out := &noteWriter{note: note}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("clusterctl init: %w\n%s", err, out.all.String())
	}
	return nil
}

// noteWriter shows the last line that was written.
type noteWriter struct {
	note func(string)
	all  bytes.Buffer
}

func (w *noteWriter) Write(p []byte) (int, error) {
	w.all.Write(p)
	lines := strings.Split(strings.TrimRight(string(p), "\n"), "\n")
	w.note(lines[len(lines)-1])
	return len(p), nil
}

// awaitDeployments waits until every Deployment is available. When one is not in time, the error says what its Pods say.
func (o *upOptions) awaitDeployments(ctx context.Context, k kube, note func(string)) error {
	deadline := o.clock.Now().Add(availableLimit)
	for {
		waiting, err := k.waitingDeployments(ctx)
		if err == nil && len(waiting) == 0 {
			return nil
		}
		if err == nil {
			note("waiting for " + strings.Join(waiting, ", "))
			err = fmt.Errorf("not available after %s: %s", availableLimit, strings.Join(waiting, ", "))
		}
		if o.clock.Now().After(deadline) {
			return fmt.Errorf("%w%s", err, podTrouble(ctx, k))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.clock.After(pollEvery):
		}
	}
}

// podTrouble lists what is wrong with Pods, a line each.
func podTrouble(ctx context.Context, k kube) string {
	bad, _, err := k.podsNotReady(ctx)
	if err != nil {
		return "\n  (" + err.Error() + ")"
	}
	var b strings.Builder
	for _, p := range bad {
		fmt.Fprintf(&b, "\n  Pod %s/%s: %s", p.Namespace, p.Name, p.Reason)
	}
	return b.String()
}

func (o *upOptions) createClusters(ctx context.Context, p *progress, k kube) error {
	s := p.step("Create workload clusters")
	var want []workload.Cluster
	if o.metal {
		clusters, err := o.metalClusters(ctx)
		if err != nil {
			return s.end(err, "")
		}
		return s.end(o.settle(ctx, k, clusters, s.note), machineCount(clusters))
	}
	for i := range o.spec.Clusters {
		want = append(want, workload.Cluster{
			Name: fmt.Sprintf("fleet-%d", i+1), Namespace: "default", Kubernetes: o.spec.Kubernetes,
			ControlPlanes: o.spec.ControlPlanes, Workers: o.spec.Workers, Startup: machineStartup,
		})
	}
	return s.end(o.settle(ctx, k, want, s.note), machineCount(want))
}

// settle writes clusters and waits until they are whole.
func (o *upOptions) settle(ctx context.Context, k kube, want []workload.Cluster, note func(string)) error {
	for _, c := range want {
		if err := c.Apply(ctx, k.dynamic); err != nil {
			return err //nolint:wrapcheck // names the object
		}
	}
	return workload.Wait(ctx, k.dynamic, o.clock, want, clustersLimit, note) //nolint:wrapcheck // says what is missing
}

func machineCount(want []workload.Cluster) string {
	n := 0
	for _, c := range want {
		n += c.ControlPlanes + c.Workers
	}
	return fmt.Sprintf("%d Machines run", n)
}

// infrastructure is the infrastructure provider for clusterctl.
func (o *upOptions) infrastructure() string {
	if o.metal {
		return "metal3:" + o.spec.Metal
	}
	return "docker:" + o.spec.CAPI
}
