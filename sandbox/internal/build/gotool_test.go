// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

func TestGoEnvOverridesWhatWouldChangeABuild(t *testing.T) {
	t.Parallel()
	got := goEnv([]string{"HOME=/h", "GOFLAGS=-mod=vendor -race", "CGO_ENABLED=1", "GOPROXY=https://p", "GOWORK=/w/go.work", "GOOS=plan9"})
	slices.Sort(got)
	want := []string{
		"CGO_ENABLED=0", "GO111MODULE=on", "GOEXPERIMENT=", "GOFLAGS=-trimpath", "GOOS=linux", "GOPROXY=https://p",
		"GOTOOLCHAIN=local", "GOWORK=off", "HOME=/h",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("environment (-got +want):\n%s", diff)
	}
}

func TestGoSemver(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"go1.26.8":                 "v1.26.8",
		"go1.27rc1":                "v1.27.0-rc1",
		"go1.26.8 X:nocoverage":    "v1.26.8",
		"go1.26.8-vendor.20261010": "v1.26.8",
	} {
		if got := goSemver(raw); got != want {
			t.Errorf("goSemver(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestNeedNamesBothVersionsAndTheRemedy(t *testing.T) {
	t.Parallel()
	tool := &goTool{path: "/usr/bin/go", raw: "go1.24.1", version: "v1.24.1"}
	for _, enough := range []string{"", "1.21", "1.24.0", "1.24.1"} {
		if err := tool.need("x", enough); err != nil {
			t.Errorf("need %q: %v", enough, err)
		}
	}
	err := tool.need("k8s.io/kubernetes@v1.36.3", "1.26.0")
	if err == nil {
		t.Fatal("an old toolchain was taken")
	}
	for _, part := range []string{"k8s.io/kubernetes@v1.36.3", "1.26.0", "/usr/bin/go", "go1.24.1", "install"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// fakeGo writes a go command that answers "go env GOVERSION" and runs the script for all else.
func fakeGo(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	text := "#!/bin/sh\nif [ \"$1\" = env ]; then echo go1.26.8; exit; fi\n" + script
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFailedBuildShowsTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}, Go: fakeGo(t, `for i in $(seq 100); do echo "line $i" >&2; done; exit 1`)}
	_, err := b.TestPod(t.Context())
	var failed *ToolError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a ToolError", err)
	}
	var want []string
	for i := 61; i <= 100; i++ {
		want = append(want, fmt.Sprintf("line %d", i))
	}
	if diff := cmp.Diff(failed.Tail, want); diff != "" {
		t.Errorf("output in the error (-got +want):\n%s", diff)
	}
	if !strings.Contains(err.Error(), "build testpod v1") || !strings.Contains(err.Error(), "line 100") {
		t.Errorf("error does not name the set and the output: %v", err)
	}
	for _, kind := range []string{"bin", "tmp"} {
		left, err := os.ReadDir(filepath.Join(b.CacheDir, kind))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("a failed build left %v in %s", left, kind)
		}
	}
}

func TestAMissingToolchainIsNamed(t *testing.T) {
	t.Parallel()
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}, Go: filepath.Join(t.TempDir(), "go")}
	_, err := b.TestPod(t.Context())
	if err == nil || !strings.Contains(err.Error(), "install Go") {
		t.Errorf("got %v, want an error that says to install Go", err)
	}
}

func TestAModuleThatIsNotServedIsNamed(t *testing.T) {
	t.Parallel()
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}, Go: fakeGo(t, `echo '{"Path":"go.etcd.io/etcd/server/v3","Error":"no such version"}'; exit 1`)}
	_, err := b.Source(t.Context(), "go.etcd.io/etcd/server/v3", "v3.99.0")
	if err == nil || !strings.Contains(err.Error(), "go.etcd.io/etcd/server/v3@v3.99.0") || !strings.Contains(err.Error(), "no such version") {
		t.Errorf("got %v, want the module and the reason", err)
	}
}

// TestTestPodIsBuiltAndRuns is the one real build here: it needs no module and takes a second.
func TestTestPodIsBuiltAndRuns(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=vendor") // would break the build if it got through
	var stages []Stage
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}, Progress: func(e Event) {
		if len(stages) == 0 || stages[len(stages)-1] != e.Stage {
			stages = append(stages, e.Stage)
		}
	}}
	set, err := b.TestPod(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stages, []Stage{StageResolving, StageCompiling, StageDone}); diff != "" {
		t.Errorf("stages (-got +want):\n%s", diff)
	}
	out, err := exec.CommandContext(t.Context(), set.Path(TestPodProgram), "crash", "-message", "boom").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("crash ended with %v, want exit code 1", err)
	}
	if got := string(out); got != "testpod: boom\n" {
		t.Errorf("crash printed %q", got)
	}

	stages = nil
	again, err := b.TestPod(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(again, set); diff != "" {
		t.Errorf("second time (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(stages, []Stage{StageCached}); diff != "" {
		t.Errorf("stages of the second time (-got +want):\n%s", diff)
	}
}
