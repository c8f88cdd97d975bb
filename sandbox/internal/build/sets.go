// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Kubernetes builds kube-apiserver, kube-controller-manager and kube-scheduler.
func (b *Builder) Kubernetes(ctx context.Context, version string) (Set, error) {
	if err := checkVersion("Kubernetes", version); err != nil {
		return Set{}, err
	}
	tool, err := b.findGo(ctx)
	if err != nil {
		return Set{}, err
	}
	module := moduleVersion{kubernetesModule, version}
	upstream, err := b.upstream(ctx, tool, module)
	if err != nil {
		return Set{}, err
	}
	staging, err := stagingPins(upstream, version)
	if err != nil {
		return Set{}, err
	}
	g := generated{name: "kubernetes", upstream: upstream, require: pins{kubernetesModule: version}, replace: staging}
	for _, binary := range []string{KubeAPIServer, KubeControllerManager, KubeScheduler} {
		g.tools = append(g.tools, target{pkg: kubernetesModule + "/cmd/" + binary, binary: binary})
	}
	major, minor := majorMinor(version)
	// Without these the server says v0.0.0-master+$Format and Cluster API refuses it.
	const pkg = "k8s.io/component-base/version"
	ldflags := fmt.Sprintf("-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", pkg, version, pkg, major, pkg, minor)
	return b.ensureGenerated(ctx, tool, g, version, ldflags)
}

// Etcd builds the etcd server.
func (b *Builder) Etcd(ctx context.Context, version string) (Set, error) {
	if err := checkVersion("etcd", version); err != nil {
		return Set{}, err
	}
	tool, err := b.findGo(ctx)
	if err != nil {
		return Set{}, err
	}
	upstream, err := b.upstream(ctx, tool, moduleVersion{etcdModule, version})
	if err != nil {
		return Set{}, err
	}
	g := generated{
		name: "etcd", upstream: upstream, require: pins{etcdModule: version},
		tools: []target{{pkg: etcdModule, binary: EtcdServer}},
	}
	return b.ensureGenerated(ctx, tool, g, version, "")
}

// ClusterAPI builds the managers of the core, kubeadm bootstrap, kubeadm control plane and docker providers, and clusterctl.
func (b *Builder) ClusterAPI(ctx context.Context, version string) (Set, error) {
	if err := checkVersion("Cluster API", version); err != nil {
		return Set{}, err
	}
	tool, err := b.findGo(ctx)
	if err != nil {
		return Set{}, err
	}
	g, err := b.clusterAPIModule(ctx, tool, version)
	if err != nil {
		return Set{}, err
	}
	return b.ensureGenerated(ctx, tool, g, version, clusterAPILDFlags(version))
}

func (b *Builder) clusterAPIModule(ctx context.Context, tool *goTool, version string) (generated, error) {
	g := generated{name: "cluster-api", require: pins{}, replace: pins{}, tools: clusterAPITargets(version)}
	core, own, err := b.clusterAPIPins(ctx, tool, version)
	if err != nil {
		return generated{}, err
	}
	g.upstream = core
	for _, path := range clusterAPIModules(version) {
		// The modules name each other by a placeholder version and a relative replace: give the real one.
		g.require[path], g.replace[path] = version, version
	}
	lent, err := b.borrow(ctx, tool, moduleVersion{clusterAPIModule, version}, own)
	maps.Copy(g.replace, lent)
	return g, err
}

// clusterAPIPins returns the go.mod of the main module of a release, and the versions that its modules together are built with.
// Each of them lists all it needs, so the highest of each is what the go command would choose.
func (b *Builder) clusterAPIPins(ctx context.Context, tool *goTool, version string) (*modfile.File, pins, error) {
	var core *modfile.File
	all := pins{}
	for _, path := range clusterAPIModules(version) {
		f, err := b.upstream(ctx, tool, moduleVersion{path, version})
		if err != nil {
			return nil, nil, err
		}
		if path == clusterAPIModule {
			core = f
		}
		for dep, v := range pinsOf(f) {
			all.raise(dep, v)
		}
	}
	return core, all, nil
}

// clusterAPIModules are the modules of a Cluster API release: the API types have one of their own from v1.14 on.
func clusterAPIModules(version string) []string {
	if semver.Compare(version, "v1.14.0-0") < 0 {
		return []string{clusterAPIModule, clusterAPITestModule}
	}
	return []string{clusterAPIModule, clusterAPITypes, clusterAPITestModule}
}

func clusterAPITargets(version string) []target {
	core := clusterAPIModule + "/core"
	if semver.Compare(version, "v1.14.0-0") < 0 {
		core = clusterAPIModule // the main package was the module's root
	}
	return []target{
		{pkg: core, binary: CoreManager},
		{pkg: clusterAPIModule + "/bootstrap/kubeadm", binary: BootstrapManager},
		{pkg: clusterAPIModule + "/cmd/clusterctl", binary: Clusterctl},
		{pkg: clusterAPITestModule + "/infrastructure/docker", binary: DockerManager},
		{pkg: clusterAPIModule + "/controlplane/kubeadm", binary: ControlPlaneManager},
	}
}

func clusterAPILDFlags(version string) string {
	major, minor := majorMinor(version)
	const pkg = clusterAPIModule + "/version"
	return fmt.Sprintf("-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s -X %s.gitTreeState=clean",
		pkg, version, pkg, major, pkg, minor, pkg)
}

// ensureGenerated renders a generated module and builds it.
func (b *Builder) ensureGenerated(ctx context.Context, tool *goTool, g generated, version, ldflags string) (Set, error) {
	goMod, err := g.render()
	if err != nil {
		return Set{}, fmt.Errorf("write go.mod of %s %s: %w", g.name, version, err)
	}
	return b.ensure(ctx, tool, recipe{name: g.name, version: version, goMod: goMod, targets: g.tools, ldflags: ldflags})
}

// upstream fetches a module's go.mod and checks that the toolchain is new enough for it.
func (b *Builder) upstream(ctx context.Context, tool *goTool, m moduleVersion) (*modfile.File, error) {
	text, err := tool.goModOf(ctx, m)
	if err != nil {
		return nil, err
	}
	f, err := parseGoMod(m, text)
	if err != nil {
		return nil, err
	}
	if f.Go != nil {
		return f, tool.need(m.String(), f.Go.Version)
	}
	return f, nil
}

// borrow returns the versions that a set takes over from the one it is aligned with: those of the k8s.io modules and of the
// libraries below them, where the two differ. Everything else stays as upstream has it.
func (b *Builder) borrow(ctx context.Context, tool *goTool, m moduleVersion, own pins) (pins, error) {
	lender := alignment(m)
	if lender.path == "" {
		return nil, nil
	}
	lent, err := b.lentPins(ctx, tool, lender)
	if err != nil {
		return nil, err
	}
	// k8s.io/apiserver is at the top of the stack that all sets share; its go.mod names everything below.
	stack, err := b.upstream(ctx, tool, moduleVersion{apiserverModule, lent[apiserverModule]})
	if err != nil {
		return nil, err
	}
	return alignedPins(lent, own, pinsOf(stack)), nil
}

// lentPins are the versions a lender is built with.
func (b *Builder) lentPins(ctx context.Context, tool *goTool, lender moduleVersion) (pins, error) {
	if lender.path == clusterAPIModule {
		_, lent, err := b.clusterAPIPins(ctx, tool, lender.version)
		return lent, err
	}
	f, err := b.upstream(ctx, tool, lender)
	if err != nil {
		return nil, err
	}
	lent := pinsOf(f)
	staging, err := stagingPins(f, lender.version)
	maps.Copy(lent, staging)
	return lent, err
}

// stagingPins are the k8s.io modules that live in the Kubernetes repository, at the version that belongs to a release.
func stagingPins(kubernetes *modfile.File, version string) (pins, error) {
	v, err := stagingVersion(version)
	if err != nil {
		return nil, err
	}
	staging := pins{}
	for _, path := range localReplaces(kubernetes) {
		staging[path] = v
	}
	return staging, nil
}
