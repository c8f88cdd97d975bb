// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/internal/bundle"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// artifacts builds what sandboxes are made of, each thing once, and shows a step for each.
type artifacts struct {
	bundler  bundle.Bundler
	builder  *build.Builder
	progress *progress
}

// platform is Cluster API at one version with the cert-manager that belongs to it.
type platform struct {
	capi, certManager bundle.Bundle
}

func newArtifacts(p *progress, clk clock.WithTicker) (*artifacts, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	b := &build.Builder{CacheDir: cache, Clock: clk}
	return &artifacts{builder: b, bundler: bundle.Bundler{Builder: b}, progress: p}, nil
}

// controlPlane makes sure of etcd and Kubernetes and fills in where the programs are.
func (a *artifacts) controlPlane(ctx context.Context, version string, in *supervisor.Inputs) error {
	etcd, err := show(a, "etcd "+build.DefaultEtcd, func() (build.Set, error) { return a.builder.Etcd(ctx, build.DefaultEtcd) })
	if err != nil {
		return err
	}
	kube, err := show(a, "Kubernetes "+version, func() (build.Set, error) { return a.builder.Kubernetes(ctx, version) })
	if err != nil {
		return err
	}
	in.Etcd = etcd.Path(build.EtcdServer)
	in.APIServer, in.ControllerManager = kube.Path(build.KubeAPIServer), kube.Path(build.KubeControllerManager)
	in.Scheduler = kube.Path(build.KubeScheduler)
	return nil
}

// assets makes sure of a directory with links to etcd and kube-apiserver, which tests against a real API server look for.
func (a *artifacts) assets(ctx context.Context, version string, in supervisor.Inputs) (string, error) {
	key := filepath.Base(filepath.Dir(in.Etcd)) + "-" + filepath.Base(filepath.Dir(in.APIServer))
	return show(a, "directory of test assets", func() (string, error) {
		return a.builder.Once(ctx, build.Artifact{Kind: "assets", Name: "envtest", Version: version, Key: key}, func(dir string) error {
			for _, program := range []string{in.Etcd, in.APIServer} {
				if err := os.Symlink(program, filepath.Join(dir, filepath.Base(program))); err != nil {
					return err //nolint:wrapcheck // names both paths
				}
			}
			return nil
		})
	})
}

// platform makes sure of Cluster API and cert-manager. An empty certManager means the version that clusterctl of this Cluster API installs.
func (a *artifacts) platform(ctx context.Context, capi, certManager string) (platform, error) {
	var p platform
	var err error
	p.capi, err = show(a, "Cluster API "+capi, func() (bundle.Bundle, error) { return a.bundler.ClusterAPI(ctx, capi) })
	if err != nil {
		return p, err
	}
	if certManager == "" {
		if certManager, err = a.certManagerOf(ctx, capi); err != nil {
			return p, err
		}
	}
	p.certManager, err = show(a, "cert-manager "+certManager, func() (bundle.Bundle, error) { return a.bundler.CertManager(ctx, certManager) })
	return p, err
}

// certManagerOf returns the cert-manager version that clusterctl of a Cluster API version installs. It is in clusterctl's source.
func (a *artifacts) certManagerOf(ctx context.Context, capi string) (string, error) {
	switch capi {
	case build.DefaultClusterAPI:
		return build.DefaultCertManager, nil
	case build.NextClusterAPI:
		return build.NextCertManager, nil
	}
	dir, err := a.builder.Source(ctx, build.ClusterAPIModule, capi)
	if err != nil {
		return "", fmt.Errorf("find the source of Cluster API %s: %w", capi, err)
	}
	path := filepath.Join(dir, "cmd", "clusterctl", "client", "config", "cert_manager_client.go")
	source, err := os.ReadFile(path)
	if err != nil {
		return "", hint(fmt.Errorf("find the cert-manager version of Cluster API %s: %w", capi, err), "name it with --cert-manager")
	}
	m := regexp.MustCompile(`CertManagerDefaultVersion\s*=\s*"(v[0-9.]+)"`).FindSubmatch(source)
	if m == nil {
		return "", hint(fmt.Errorf("find the cert-manager version of Cluster API %s: %s does not say", capi, path), "name it with --cert-manager")
	}
	return string(m[1]), nil
}

// testPod makes sure of the image whose program runs, crashes or takes memory as it is told.
func (a *artifacts) testPod(ctx context.Context) (bundle.Bundle, error) {
	return show(a, "test image", func() (bundle.Bundle, error) { return a.bundler.TestPod(ctx) })
}

// metal makes sure of simulated bare metal: the daemon's program and the provider's images.
func (a *artifacts) metal(ctx context.Context) (bundle.Bundle, error) {
	return show(a, "simulated bare metal", func() (bundle.Bundle, error) { return a.bundler.Metal(ctx) })
}

// show runs one build as a step of the progress display.
func show[T any](a *artifacts, name string, run func() (T, error)) (T, error) {
	s := a.progress.step("Build " + name)
	built := false
	a.builder.Progress = func(e build.Event) {
		s.note(describeBuild(e))
		built = built || e.Stage != build.StageCached
	}
	v, err := run()
	result := "in the cache"
	if built {
		result = "built"
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = hint(err, "free some space: the cache in %s needs about 3 GB, Go's own caches about 6 GB", a.builder.CacheDir)
	}
	return v, s.end(err, result)
}

func describeBuild(e build.Event) string {
	text := string(e.Stage)
	if e.Total > 0 {
		text += fmt.Sprintf(" %d/%d", e.Done, e.Total)
	}
	return text + " " + e.Detail
}

// ensure builds what a sandbox is made of, as far as it is not in the cache. The first of the versions to offer is the one to install.
func (a *artifacts) ensure(ctx context.Context, spec supervisor.Spec, offer []string) (supervisor.Inputs, []platform, error) {
	var in supervisor.Inputs
	if err := a.controlPlane(ctx, spec.Kubernetes, &in); err != nil {
		return in, nil, err
	}
	test, err := a.testPod(ctx)
	if err != nil {
		return in, nil, err
	}
	in.Images = append(in.Images, test.Images().Dir)
	if spec.CAPI == "" {
		return in, nil, nil
	}
	if spec.Metal != "" {
		m, err := a.metal(ctx)
		if err != nil {
			return in, nil, err
		}
		in.Metal, in.Images = m.Set.Path(build.MetalProgram), append(in.Images, m.Images().Dir)
	}
	var all []platform
	for i, version := range offer {
		certManager := ""
		if i == 0 {
			certManager = spec.CertManager
		}
		pl, err := a.platform(ctx, version, certManager)
		if err != nil {
			return in, nil, err
		}
		all = append(all, pl)
		in.Images = append(in.Images, pl.capi.Images().Dir, pl.certManager.Images().Dir)
	}
	return in, all, nil
}

// writeRepositories gives each Cluster API version a clusterctl of its own with a repository that has all of them, so that either can plan an
// upgrade; they differ in the cert-manager they install.
func writeRepositories(l supervisor.Layout, all []platform, metal bool) (map[string]supervisor.Clusterctl, error) {
	var versions []bundle.Bundle
	for _, p := range all {
		versions = append(versions, p.capi)
	}
	out := map[string]supervisor.Clusterctl{}
	for _, p := range all {
		v := p.capi.Set.Version
		config, err := bundle.Repository{ClusterAPI: versions, CertManager: p.certManager, Metal: metal}.Write(filepath.Join(l.Dir, "clusterctl", v))
		if err != nil {
			return nil, fmt.Errorf("write provider repository: %w", err)
		}
		out[v] = supervisor.Clusterctl{Path: p.capi.Set.Path(build.Clusterctl), Config: config}
	}
	return out, nil
}
