// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

func TestKeyChangesWithEveryInput(t *testing.T) {
	t.Parallel()
	base := func() recipe {
		return recipe{
			name: "etcd", version: "v3.6.16", goMod: []byte("module x\n"), files: map[string][]byte{"main.go": []byte("package main")},
			source: moduleVersion{"example.com/m", "v1.0.0"}, targets: []target{{"example.com/m", "m"}}, ldflags: "-X a=b",
		}
	}
	tool := &goTool{raw: "go1.26.8"}
	want := base().key(tool)
	if got := base().key(tool); got != want {
		t.Fatalf("the same recipe got keys %s and %s", got, want)
	}
	changes := map[string]func(*recipe, *goTool){
		"the name":              func(r *recipe, _ *goTool) { r.name = "other" },
		"the version":           func(r *recipe, _ *goTool) { r.version = "v3.6.17" },
		"the go.mod":            func(r *recipe, _ *goTool) { r.goMod = []byte("module y\n") },
		"a file's text":         func(r *recipe, _ *goTool) { r.files["main.go"] = []byte("package main\n") },
		"a file's name":         func(r *recipe, _ *goTool) { r.files = map[string][]byte{"m.go": []byte("package main")} },
		"the source":            func(r *recipe, _ *goTool) { r.source.version = "v1.0.1" },
		"a target":              func(r *recipe, _ *goTool) { r.targets[0].pkg = "example.com/m/v2" },
		"the linker's flags":    func(r *recipe, _ *goTool) { r.ldflags = "-X a=c" },
		"the toolchain":         func(_ *recipe, t *goTool) { t.raw = "go1.26.9" },
		"where one input ends":  func(r *recipe, _ *goTool) { r.name, r.version = "etcdv", "3.6.16" },
		"the order of targets":  func(r *recipe, _ *goTool) { r.targets = append([]target{{"a", "b"}}, r.targets...) },
		"the name of a program": func(r *recipe, _ *goTool) { r.targets[0].binary = "etcd" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tool := base(), &goTool{raw: "go1.26.8"}
			change(&r, tool)
			if got := r.key(tool); got == want {
				t.Errorf("key did not change with %s", name)
			}
		})
	}
}

const kubernetesGoMod = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/go-logr/logr v1.4.3
	github.com/coredns/corefile-migration v1.0.31
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.140.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
	example.com/fork => example.com/other v1.0.0
)
`

func parse(t *testing.T, text string) *modfile.File {
	t.Helper()
	f, err := parseGoMod(moduleVersion{"example.com/m", "v1.0.0"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRenderKeepsWhatDecidesHowAProgramBehaves(t *testing.T) {
	t.Parallel()
	upstream := parse(t, kubernetesGoMod)
	staging, err := stagingPins(upstream, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	got, err := generated{
		name: "kubernetes", upstream: upstream, require: pins{"k8s.io/kubernetes": "v1.36.3"}, replace: staging,
		tools: []target{{pkg: "k8s.io/kubernetes/cmd/kube-apiserver"}},
	}.render()
	if err != nil {
		t.Fatal(err)
	}
	want := `module sandbox.capstan.dev/build/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/kubernetes v1.36.3

replace k8s.io/api => k8s.io/api v0.36.3

replace k8s.io/client-go => k8s.io/client-go v0.36.3

tool k8s.io/kubernetes/cmd/kube-apiserver
`
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("go.mod (-got +want):\n%s", diff)
	}
}

func TestAlignedPinsBorrowOnlyTheSharedStack(t *testing.T) {
	t.Parallel()
	lender := pins{"github.com/go-logr/logr": "v1.4.3", "k8s.io/api": "v0.36.3", "github.com/coredns/corefile-migration": "v1.0.31", "same": "v1.0.0"}
	own := pins{"github.com/go-logr/logr": "v1.4.4", "k8s.io/api": "v0.36.2", "github.com/coredns/corefile-migration": "v1.0.35", "same": "v1.0.0", "mine": "v1.0.0"}
	stack := pins{"github.com/go-logr/logr": "v1.4.3", "same": "v1.0.0", "mine": "v1.0.0"}
	want := pins{"github.com/go-logr/logr": "v1.4.3", "k8s.io/api": "v0.36.3"}
	if diff := cmp.Diff(alignedPins(lender, own, stack), want); diff != "" {
		t.Errorf("borrowed (-got +want):\n%s", diff)
	}
}

func TestPinsOfLeavesOutPlaceholders(t *testing.T) {
	t.Parallel()
	got := pinsOf(parse(t, "module m\n\nrequire (\n\ta v0.0.0-00010101000000-000000000000\n\tb v0.0.0\n\tc v1.2.3\n)\n"))
	if diff := cmp.Diff(got, pins{"c": "v1.2.3"}); diff != "" {
		t.Errorf("pins (-got +want):\n%s", diff)
	}
}

func TestClusterAPIFollowsTheLayoutOfItsRelease(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		version     string
		wantModules []string
		wantCore    string
	}{
		"before v1.14 the core manager is the module's root": {
			version:     "v1.13.4",
			wantModules: []string{"sigs.k8s.io/cluster-api", "sigs.k8s.io/cluster-api/test"},
			wantCore:    "sigs.k8s.io/cluster-api",
		},
		"a release candidate of v1.14 is laid out as v1.14": {
			version:     "v1.14.0-rc.0",
			wantModules: []string{"sigs.k8s.io/cluster-api", "sigs.k8s.io/cluster-api/api", "sigs.k8s.io/cluster-api/test"},
			wantCore:    "sigs.k8s.io/cluster-api/core",
		},
		"from v1.14 on the API types are a module": {
			version:     "v1.14.2",
			wantModules: []string{"sigs.k8s.io/cluster-api", "sigs.k8s.io/cluster-api/api", "sigs.k8s.io/cluster-api/test"},
			wantCore:    "sigs.k8s.io/cluster-api/core",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(clusterAPIModules(tc.version), tc.wantModules); diff != "" {
				t.Errorf("modules (-got +want):\n%s", diff)
			}
			if got := clusterAPITargets(tc.version)[0].pkg; got != tc.wantCore {
				t.Errorf("core is %s, want %s", got, tc.wantCore)
			}
		})
	}
}

func TestBatchesNeverWriteOneFileTwice(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.13.4", "v1.14.2"} {
		got := batches(clusterAPITargets(version))
		if len(got) != 2 {
			t.Errorf("%s: %d batches, want 2: only the two kubeadm providers clash", version, len(got))
		}
		for _, batch := range got {
			seen := map[string]bool{}
			for _, target := range batch {
				if seen[outputName(target.pkg)] {
					t.Errorf("%s: two programs are called %s", version, outputName(target.pkg))
				}
				seen[outputName(target.pkg)] = true
			}
		}
	}
	if got := outputName("go.etcd.io/etcd/server/v3"); got != "server" {
		t.Errorf("output of a module's root with a major version is %s, want server", got)
	}
}

func TestVersionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "1.36.3", "v1.36", "latest", "v1.2.3+meta"} {
		if checkVersion("x", bad) == nil {
			t.Errorf("version %q was taken", bad)
		}
	}
	for _, good := range []string{"v1.36.3", "v1.14.0-rc.1"} {
		if err := checkVersion("x", good); err != nil {
			t.Error(err)
		}
	}
}
