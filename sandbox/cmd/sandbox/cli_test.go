// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// runCLI runs a command line and returns its outputs and exit code.
func runCLI(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	return runCLIWith(t.Context(), args...)
}

func runCLIWith(ctx context.Context, args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	root := newRoot(streams{in: os.Stdin, out: &o, errOut: &e}, clock.RealClock{}) //nolint:contextcheck // commands take the context they are run with
	root.SetArgs(args)
	code = exitCode(root.ExecuteContext(ctx), &e)
	return o.String(), e.String(), code
}

func TestBadCommandLinesAreUsageErrorsThatNameTheFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cases := map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":                          {[]string{"up", "--nope"}, "--nope"},
		"an unknown command's arguments":           {[]string{"down", "x"}, "x"},
		"a version without v":                      {[]string{"up", "--dir", dir, "--capi", "1.13.4"}, "--capi"},
		"a version that is a word":                 {[]string{"up", "--dir", dir, "--kubernetes", "latest"}, "--kubernetes"},
		"an offered version that is a word":        {[]string{"up", "--dir", dir, "--offer", "next"}, "--offer"},
		"an even number of control planes":         {[]string{"up", "--dir", dir, "--clusters", "1", "--control-planes", "2"}, "--control-planes"},
		"clusters without Cluster API":             {[]string{"up", "--dir", dir, "--clusters", "1", "--no-capi"}, "--no-capi"},
		"a negative number of clusters":            {[]string{"up", "--dir", dir, "--clusters", "-1"}, "--clusters"},
		"a node without memory":                    {[]string{"up", "--dir", dir, "--node-memory", "0"}, "--node-memory"},
		"a name that is a path":                    {[]string{"status", "--name", "../x"}, "--name"},
		"an output format nobody knows":            {[]string{"status", "--dir", dir, "-o", "xml"}, "xml"},
		"a time that is none":                      {[]string{"audit", "--dir", dir, "--since", "yesterday"}, "--since"},
		"a node change without a change":           {[]string{"node", "set", "--dir", dir}, "--memory"},
		"a component that is a path":               {[]string{"logs", "--dir", dir, "../../etc/passwd"}, "component"},
		"a release without a place":                {[]string{"release"}, "--out"},
		"a load of Machines without Clusters":      {[]string{"load", "--dir", dir, "--clusters", "0", "--machines", "5"}, "Cluster"},
		"a load of too few Machines":               {[]string{"load", "--dir", dir, "--clusters", "5", "--machines", "4"}, "too few"},
		"a load of nobody":                         {[]string{"load", "--dir", dir, "--parallel", "0"}, "--parallel"},
		"a load of two clusters":                   {[]string{"load", "--dir", dir, "--kubeconfig", "x"}, "--kubeconfig"},
		"hosts without bare metal":                 {[]string{"up", "--dir", dir, "--hosts", "5"}, "--metal"},
		"fewer hosts than machines":                {[]string{"up", "--dir", dir, "--metal", "--hosts", "4", "--control-planes", "3", "--workers", "2"}, "5 machines"},
		"a Metal3 that there is not":               {[]string{"up", "--dir", dir, "--metal", "--metal3", "v1.11.0"}, "v1.12.4 and v1.13.2"},
		"bare metal without Cluster API":           {[]string{"up", "--dir", dir, "--metal", "--no-capi"}, "--no-capi"},
		"a host that fails in an unknown way":      {[]string{"host", "set", "--dir", dir, "host-1", "--fail", "fire"}, "checksum"},
		"hosts that are not named":                 {[]string{"host", "set", "--dir", dir, "--slow"}, "--all"},
		"an image name without what it stands for": {[]string{"image", "add", "--dir", dir, "a:v1"}, "--from"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errOut, code := runCLI(t, tc.args...)
			if code != exitUsage || !strings.Contains(errOut, tc.want) || out != "" {
				t.Errorf("got exit code %d, stdout %q, stderr %q; want exit code 2 and stderr to name %s", code, out, errOut, tc.want)
			}
		})
	}
}

func TestCommandsSayThatNothingRunsAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"status"},
		{"kubeconfig"},
		{"audit"},
		{"clusterctl", "--", "version"},
		{"image", "ls"},
		{"node", "set", "--cpu", "1"},
		{"host", "list"},
		{"host", "set", "host-1", "--slow"},
		{"host", "images"},
		{"exec", "--", "true"},
		{"load"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// Flags stand before the arguments of another program.
			n := 1
			if args[0] == "image" || args[0] == "node" || args[0] == "host" {
				n = 2
			}
			line := append(append(append([]string{}, args[:n]...), "--dir", dir), args[n:]...)
			out, errOut, code := runCLI(t, line...)
			if code != exitError || out != "" || !strings.Contains(errOut, "no sandbox is running here") || !strings.Contains(errOut, "sandbox up --dir "+dir) {
				t.Errorf("got exit code %d, stdout %q, stderr %q", code, out, errOut)
			}
		})
	}
}

func TestDownWithNothingToDoSucceeds(t *testing.T) {
	t.Parallel()
	_, errOut, code := runCLI(t, "down", "--dir", filepath.Join(t.TempDir(), "none"))
	if code != exitDone || !strings.Contains(errOut, "There is no sandbox") {
		t.Errorf("got exit code %d, stderr %q", code, errOut)
	}
}

func TestDownCleansUpAfterACrash(t *testing.T) {
	t.Parallel()
	l := supervisor.Layout{Dir: t.TempDir()}
	// What a killed sandbox leaves: a process ID that is somebody else's by now, and files.
	for path, text := range map[string]string{l.PID(): fmt.Sprint(os.Getpid()), l.Spec(): "{}", filepath.Join(l.Dir, "kubeconfig"): "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, errOut, code := runCLI(t, "down", "--dir", l.Dir)
	if code != exitDone {
		t.Fatalf("got exit code %d, stderr %q", code, errOut)
	}
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "lock" {
		t.Errorf("want only the lock file to be left, got %v", entries)
	}
}

func TestLockIsHeldByOneAtATime(t *testing.T) {
	t.Parallel()
	d := daemon{layout: supervisor.Layout{Dir: t.TempDir()}, clock: clock.RealClock{}}
	held, err := lock(d.layout)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(d.layout); !errors.Is(err, errLocked) {
		t.Errorf("second lock: got %v, want errLocked", err)
	}
	if !d.alive() {
		t.Error("with the lock held the sandbox counts as alive")
	}
	_ = held.Close() // lets the lock go
	if d.alive() {
		t.Error("without the lock the sandbox counts as gone")
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		want int
	}{
		"success":                  {nil, 0},
		"an error":                 {errors.New("x"), 1},
		"a wrong command line":     {usagef("x"), 2},
		"an interrupt":             {fmt.Errorf("wait: %w", context.Canceled), 130},
		"another program's result": {exitStatusError(7), 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := exitCode(tc.err, &bytes.Buffer{}); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestProgressIsPlainLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := newProgress(&b, clock.RealClock{})
		s := p.step("Build it")
		s.note("1 of 2")
		clock.RealClock{}.Sleep(quietFor + time.Second)
		s.note("2 of 2")
		clock.RealClock{}.Sleep(time.Second)
		if err := s.end(nil, "built"); err != nil {
			t.Fatal(err)
		}
		err := p.step("Start it").end(errors.New("x"), "ignored")
		want := "Build it ...\n       Build it: 1 of 2 (20.0s)\nok     Build it: built (22.0s)\nStart it ...\nFAILED Start it (0.0s)\n"
		if diff := cmp.Diff(b.String(), want); diff != "" || err == nil {
			t.Errorf("error %v, output (-got +want):\n%s", err, diff)
		}
	})
}

func TestAuditPrintsTheLogOfAnEndedSandbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "audit"), 0o700); err != nil {
		t.Fatal(err)
	}
	line := `{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/d/configmaps/a","verb":"patch","user":{"username":"admin"},` +
		`"userAgent":"capstan/v1 (x)","objectRef":{"resource":"configmaps","namespace":"d","name":"a"},"responseStatus":{"code":200},` +
		`"stageTimestamp":"2026-01-02T03:04:05Z"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "audit", "audit.log"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, code := runCLI(t, "audit", "--dir", dir, "--agent", "CAPSTAN")
	got := strings.Fields(out)
	want := []string{"2026-01-02T03:04:05.000Z", "capstan/v1", "admin", "patch", "-", "configmaps", "d/a", "200"}
	if diff := cmp.Diff(got, want); diff != "" || code != exitDone {
		t.Errorf("exit code %d, fields (-got +want):\n%s", code, diff)
	}
	if out, _, _ := runCLI(t, "audit", "--dir", dir, "--since", "2026-01-02T03:04:06Z"); out != "" {
		t.Errorf("want nothing since later, got %q", out)
	}
}
