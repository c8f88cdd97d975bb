// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

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
)

// The Cluster API versions of the stories.
const (
	oldVersion = "v1.13.4"
	newVersion = "v1.14.2"
)

// bed is one sandbox and the binaries.
type bed struct {
	bin string
	dir string
	// releases holds the generated release directories by Cluster API version.
	releases map[string]string
}

// result is what a command said.
type result struct {
	stdout, stderr string
	code           int
}

// binaries returns the folder with the built binaries, or skips the test.
func binaries(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("CAPSTAN_SCENARIOS")
	if bin == "" {
		t.Skip("CAPSTAN_SCENARIOS is not set: it names the folder with the binaries capstan and sandbox; `make test` sets it")
	}
	return bin
}

// start brings a sandbox up with the old Cluster API and the given number of workload clusters of 3 + 3 Machines.
func start(t *testing.T, clusters int) *bed {
	t.Helper()
	b := &bed{bin: binaries(t), dir: t.TempDir(), releases: map[string]string{}}
	t.Cleanup(func() {
		if t.Failed() {
			b.autopsy(t)
		}
		if r := b.sandbox(context.Background(), "down"); r.code != 0 { //nolint:usetesting // the test's own context has ended by then
			t.Errorf("sandbox down: %s", r.stderr)
		}
	})
	b.must(t, b.sandbox(t.Context(), "up", "--capi", oldVersion, "--clusters", fmt.Sprint(clusters), "--control-planes", "3", "--workers", "3"))
	for _, v := range []string{oldVersion, newVersion} {
		b.releases[v] = filepath.Join(t.TempDir(), v)
		b.must(t, b.run(t.Context(), "sandbox", "release", "--capi", v, "--out", b.releases[v]))
	}
	return b
}

// autopsy prints what a person would look at after a failed story.
func (b *bed) autopsy(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"status", "-o", "json"}, {"history"}} {
		r := b.run(context.Background(), "capstan", args...) //nolint:usetesting // the test's own context has ended by then
		t.Logf("capstan %s:\n%s%s", strings.Join(args, " "), r.stdout, r.stderr)
	}
	r := b.sandbox(context.Background(), "status") //nolint:usetesting // the test's own context has ended by then
	t.Logf("sandbox status:\n%s%s", r.stdout, r.stderr)
}

// sandbox runs a sandbox command on this bed's directory.
func (b *bed) sandbox(ctx context.Context, verb string, args ...string) result {
	return b.run(ctx, "sandbox", append([]string{verb, "--dir", b.dir}, args...)...)
}

// capstan runs a capstan command against the bed's management cluster.
func (b *bed) capstan(ctx context.Context, args ...string) result {
	return b.run(ctx, "capstan", args...)
}

func (b *bed) run(ctx context.Context, name string, args ...string) result {
	cmd := b.command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code, r.stderr = -1, err.Error()
	}
	return r
}

func (b *bed) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, name), args...) //nolint:gosec // the binaries under test
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig())
	return cmd
}

// kubeconfig returns the path that `sandbox kubeconfig` prints, empty before the sandbox is up.
func (b *bed) kubeconfig() string {
	out, err := exec.Command(filepath.Join(b.bin, "sandbox"), "kubeconfig", "--dir", b.dir).Output() //nolint:gosec // prints a path and ends
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// must ends the test when a command that only prepares the story fails.
func (b *bed) must(t *testing.T, r result) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	return r
}

// want checks a command's exit code and that its output has the given pieces.
func want(t *testing.T, r result, code int, pieces ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.stdout, r.stderr)
	}
	for _, p := range pieces {
		if !strings.Contains(r.stdout+r.stderr, p) {
			t.Errorf("the output does not say %q\nstdout:\n%s\nstderr:\n%s", p, r.stdout, r.stderr)
		}
	}
}

// writes lists what Capstan wrote since a moment, by the API server's audit log.
func (b *bed) writes(t *testing.T, since time.Time) []string {
	t.Helper()
	r := b.must(t, b.sandbox(t.Context(), "audit", "--agent", "capstan/", "--since", since.UTC().Format(time.RFC3339Nano)))
	return lines(r.stdout)
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

// get reads objects with kubectl's sibling in the sandbox, as decoded JSON.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return v
}
