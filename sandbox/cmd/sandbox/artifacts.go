// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// ensureArtifacts builds what a sandbox is made of, as far as it is not in the cache, and returns where it is.
func ensureArtifacts(ctx context.Context, p *progress, clk clock.WithTicker, spec supervisor.Spec) (supervisor.Inputs, error) {
	var in supervisor.Inputs
	cache, err := cacheDir()
	if err != nil {
		return in, err
	}
	b := &builder{progress: p, Builder: build.Builder{CacheDir: cache, Clock: clk}}
	etcd, err := b.set(ctx, "etcd "+build.DefaultEtcd, func() (build.Set, error) { return b.Etcd(ctx, build.DefaultEtcd) })
	if err != nil {
		return in, err
	}
	kube, err := b.set(ctx, "Kubernetes "+spec.Kubernetes, func() (build.Set, error) { return b.Kubernetes(ctx, spec.Kubernetes) })
	if err != nil {
		return in, err
	}
	in.Etcd = etcd.Path(build.EtcdServer)
	in.APIServer, in.ControllerManager = kube.Path(build.KubeAPIServer), kube.Path(build.KubeControllerManager)
	in.Scheduler = kube.Path(build.KubeScheduler)
	return in, nil
}

// builder shows the progress of builds, a step a set.
type builder struct {
	build.Builder
	progress *progress
}

func (b *builder) set(_ context.Context, name string, run func() (build.Set, error)) (build.Set, error) {
	s := b.progress.step("Build " + name)
	result := "built"
	b.Progress = func(e build.Event) {
		s.note(describeBuild(e))
		if e.Stage == build.StageCached {
			result = "in the cache"
		}
	}
	set, err := run()
	return set, s.end(err, result)
}
