// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package build makes the binaries a sandbox runs out of Go modules: Kubernetes, etcd, Cluster API with clusterctl, cert-manager
// and a small test program. Each set of binaries is built once and kept in a cache directory under a name that is a hash of
// everything that went in, so a second sandbox, or a second process at the same time, finds it ready.
//
// The package needs a Go toolchain and a module proxy, and nothing else: no container engine, no checkout, no root. It does not
// make images or manifests (see package bundle) and it does not start what it built.
//
// The binaries are upstream's code at upstream's version, with three differences that are worth knowing:
//
//   - A few sets are built with the dependency versions of another set where the two can share compiled packages (see
//     alignment in versions.go); that is what keeps a cold build short. For the same reason no set uses build tags; upstream
//     builds Cluster API v1.14 with fieldsv1string, which saves memory and changes nothing else.
//   - The docker provider's manager reports its version, which upstream's does not.
//   - cert-manager publishes no main packages in its module, so its three programs have mains of our own around its real
//     controllers, webhook and CA injector. Left out are the ACME, Vault and Venafi issuers, the ingress and gateway shims, the
//     CertificateSigningRequest controllers, configuration files and profiling; flags of these are accepted and not used.
package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"
)

// Names of the binaries, to be used with Set.Path.
const (
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KubeScheduler         = "kube-scheduler"

	EtcdServer = "etcd"

	CoreManager         = "cluster-api-controller"
	BootstrapManager    = "kubeadm-bootstrap-controller"
	ControlPlaneManager = "kubeadm-control-plane-controller"
	DockerManager       = "capd-manager"
	Clusterctl          = "clusterctl"

	CertManagerController = "cert-manager-controller"
	CertManagerWebhook    = "cert-manager-webhook"
	CertManagerCAInjector = "cert-manager-cainjector"

	TestPodProgram = "testpod"

	MetalProgram = "metal"
)

// Builder builds sets of binaries into a cache. The zero value is not usable: CacheDir and Clock are required.
// Its methods may be called from several goroutines and several processes at once.
type Builder struct {
	// CacheDir holds the finished sets, the lock files and the builds in progress. It is made when missing.
	CacheDir string
	// Clock tells the time for the elapsed field of events and paces the wait for another process's lock.
	Clock clock.WithTicker
	// Progress receives an event at every step that a person may want to see. Nil means nobody looks.
	Progress func(Event)
	// Go is the go command to run; empty means the one in GOROOT/bin or PATH.
	Go string
}

// Set is a finished set of binaries in the cache. Its directory is read-only by convention and never changes.
type Set struct {
	// Name says what it is: "kubernetes", "etcd", "cluster-api", "cert-manager", "testpod" or "metal".
	Name string
	// Version is the upstream version it was built at.
	Version string
	// Key is a hash of everything that went in.
	Key string
	// Dir is where the binaries are.
	Dir string
}

// Path returns the path of one of the set's binaries.
func (s Set) Path(binary string) string {
	return filepath.Join(s.Dir, binary)
}

// recipe is all that is needed to build a set; its key depends on every field.
type recipe struct {
	name    string
	version string
	// goMod is the text of the generated module.
	goMod []byte
	// files are written into the module's directory before the build; names are slash-separated and relative.
	files map[string][]byte
	// source, when set, is a module whose files are copied into the directory first.
	source moduleVersion
	// targets are the programs to build.
	targets []target
	// ldflags are the linker's flags beside those every set gets.
	ldflags string
}

// target is a main package and the name its binary gets.
type target struct {
	pkg    string
	binary string
}

// ensure returns the recipe's set from the cache, and builds it first when it is not there.
func (b *Builder) ensure(ctx context.Context, tool *goTool, r recipe) (Set, error) {
	key := r.key(tool)
	set := Set{Name: r.name, Version: r.version, Key: key}
	p := b.tracker(r.name, r.version)
	dir, err := b.once(ctx, "bin", r.dirName(key), p, func(work, out string) error {
		src := filepath.Join(work, "src")
		if err := os.Mkdir(src, 0o755); err != nil {
			return err
		}
		return r.build(ctx, tool, src, out, p)
	})
	if err != nil {
		return Set{}, fmt.Errorf("build %s %s: %w", r.name, r.version, err)
	}
	set.Dir = dir
	return set, nil
}

// build builds the recipe in src and leaves the result in out.
func (r recipe) build(ctx context.Context, tool *goTool, src, out string, p *tracker) error {
	if err := r.writeSources(ctx, tool, src, p); err != nil {
		return err
	}
	if err := compile(ctx, tool, r, src, out, p); err != nil {
		return err
	}
	// Kept beside the binaries as the answer to "what exactly is this?".
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(src, name), filepath.Join(out, name), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeSources fills the module's directory.
func (r recipe) writeSources(ctx context.Context, tool *goTool, dir string, p *tracker) error {
	if r.source.path != "" {
		p.report(StageDownloading, r.source.String(), 0, 0)
		from, err := tool.download(ctx, r.source)
		if err != nil {
			return err
		}
		if err := copyTree(from, dir); err != nil {
			return fmt.Errorf("copy %s: %w", r.source, err)
		}
	}
	for _, name := range sortedKeys(r.files) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, r.files[name], 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), r.goMod, 0o644)
}
