// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package bed is what the stories on the sandbox stand on: a sandbox of their own, the built binaries, and releases to
// upgrade to. The cases on a bare API server have a bed of their own.
package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/scenarios/built"
)

// The Cluster API versions of the stories.
const (
	OldVersion = "v1.13.4"
	NewVersion = "v1.14.2"
)

// Bed is one sandbox and the binaries.
type Bed struct {
	// Releases holds the generated release directories by Cluster API version.
	Releases map[string]string

	bin string
	dir string
}

// Result is what a command said.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Start brings a sandbox up with the old Cluster API and the given number of workload clusters of 3 + 3 Machines. It
// waits until the machine has room for one.
func Start(t *testing.T, clusters int) *Bed {
	t.Helper()
	b := start(t, "--capi", OldVersion, "--clusters", fmt.Sprint(clusters), "--control-planes", "3", "--workers", "3")
	for _, v := range []string{OldVersion, NewVersion} {
		b.Releases[v] = filepath.Join(t.TempDir(), v)
		b.Must(t, b.Run(t.Context(), "sandbox", "release", "--capi", v, "--out", b.Releases[v]))
	}
	return b
}

// StartMetal brings a sandbox up with one workload cluster of 3 + 2 Machines on simulated hosts.
func StartMetal(t *testing.T, hosts int) *Bed {
	t.Helper()
	return start(t, "--metal", "--hosts", fmt.Sprint(hosts), "--control-planes", "3", "--workers", "2")
}

// start brings a sandbox up, and takes it down at the test's end.
func start(t *testing.T, up ...string) *Bed {
	t.Helper()
	b := &Bed{bin: built.Binaries(t), dir: t.TempDir(), Releases: map[string]string{}}
	room(t)
	b.images(t)
	t.Cleanup(func() {
		if t.Failed() {
			b.autopsy(t)
		}
		if r := b.Sandbox(context.Background(), "down"); r.Code != 0 { //nolint:usetesting // the test's own context has ended by then
			t.Errorf("sandbox down: %s", r.Stderr)
		}
	})
	b.Must(t, b.Sandbox(t.Context(), "up", up...))
	return b
}

// images builds what the sandbox runs, unless it is in the cache. Where that takes longer than the test may, it says so.
func (b *Bed) images(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if end, limited := t.Deadline(); limited {
		early, cancel := context.WithDeadline(ctx, end.Add(-time.Minute))
		defer cancel()
		ctx = early
	}
	r := b.Run(ctx, "sandbox", "build", "--capi", OldVersion+","+NewVersion)
	if ctx.Err() != nil {
		t.Fatalf("what a sandbox runs is not built yet, and the test's time is up: run `make images` once (15 minutes), then this again\n%s", r.Stderr)
	}
	b.Must(t, r)
}

// autopsy prints what a person would look at after a failed story.
func (b *Bed) autopsy(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"status", "-o", "json"}, {"history"}} {
		r := b.Run(context.Background(), "capstan", args...) //nolint:usetesting // the test's own context has ended by then
		t.Logf("capstan %s:\n%s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
	}
	r := b.Sandbox(context.Background(), "status") //nolint:usetesting // the test's own context has ended by then
	t.Logf("sandbox status:\n%s%s", r.Stdout, r.Stderr)
}

// Sandbox runs a sandbox command on this bed's directory.
func (b *Bed) Sandbox(ctx context.Context, verb string, args ...string) Result {
	return b.Run(ctx, "sandbox", append([]string{verb, "--dir", b.dir}, args...)...)
}

// Capstan runs a capstan command against the bed's management cluster.
func (b *Bed) Capstan(ctx context.Context, args ...string) Result {
	return b.Run(ctx, "capstan", args...)
}

// Run runs one of the built binaries to its end.
func (b *Bed) Run(ctx context.Context, name string, args ...string) Result {
	cmd := b.Command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code, r.Stderr = -1, err.Error()
	}
	return r
}

// Command returns the call of one of the built binaries, not started yet.
func (b *Bed) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, name), args...) //nolint:gosec // the binaries under test
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig())
	return cmd
}

// Kubeconfig returns the path that `sandbox kubeconfig` prints, empty before the sandbox is up.
func (b *Bed) Kubeconfig() string {
	out, err := exec.Command(filepath.Join(b.bin, "sandbox"), "kubeconfig", "--dir", b.dir).Output() //nolint:gosec,noctx // prints a path and ends
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Must ends the test when a command that only prepares the story fails.
func (b *Bed) Must(t *testing.T, r Result) Result {
	t.Helper()
	if r.Code != 0 {
		t.Fatalf("exit %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// Want checks a command's exit code and that its output has the given pieces.
func Want(t *testing.T, r Result, code int, pieces ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit %d, want %d\nstdout:\n%s\nstderr:\n%s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, p := range pieces {
		if !strings.Contains(r.Stdout+r.Stderr, p) {
			t.Errorf("the output does not say %q\nstdout:\n%s\nstderr:\n%s", p, r.Stdout, r.Stderr)
		}
	}
}

// Writes lists what Capstan wrote since a moment, by the API server's audit log.
func (b *Bed) Writes(t *testing.T, since time.Time) []string {
	t.Helper()
	r := b.Must(t, b.Sandbox(t.Context(), "audit", "--agent", "capstan/", "--since", since.UTC().Format(time.RFC3339Nano)))
	return lines(r.Stdout)
}

func lines(s string) []string {
	var out []string
	for l := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(l) != "" {
			out = append(out, l)
		}
	}
	return out
}

// Decode reads JSON that a command printed.
func Decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return v
}
