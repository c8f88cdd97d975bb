// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

// The test binary is also PID 1 of a sandbox and the program in it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "init":
			os.Exit(Main())
		case "inside":
			os.Exit(inside())
		}
	}
	os.Exit(m.Run())
}

// inside reports what a sandbox looks like, on file descriptor 3.
func inside() int {
	out := os.NewFile(3, "out")
	network, err := NewPodNetwork()
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	for _, uid := range []string{"a", "b", "a"} {
		pod, err := network.Add(uid)
		if err != nil {
			fmt.Fprintln(out, err)
			return 1
		}
		fmt.Fprintln(out, uid, pod.IP)
	}
	links, err := netlink.LinkList()
	fmt.Fprintln(out, "links", len(links), err)
	fmt.Fprintln(out, "removed", errors.Join(network.Del("a"), network.Del("b"), network.Del("c")))
	links, err = netlink.LinkList()
	fmt.Fprintln(out, "links", len(links), err)
	fmt.Fprintln(out, "pid", os.Getpid(), "uid", os.Getuid())
	return 7
}

func TestStartGivesNetworkAndExitCode(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := Start(Options{
		Init: []string{exe, "init"}, Argv: []string{exe, "inside"}, Stderr: os.Stderr,
		ExtraFiles: []*os.File{out}, DieWithParent: true, Bridge: netip.MustParsePrefix("10.99.0.1/24"),
	})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is compared below
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := "a 10.99.0.2\nb 10.99.0.3\na 10.99.0.2\nlinks 4 <nil>\nremoved <nil>\nlinks 2 <nil>\npid 2 uid 0\n"
	// PID 2 is the program; threads of PID 1 take numbers before it.
	text := string(got)
	if i := strings.Index(text, "pid "); i >= 0 {
		var pid int
		if _, err := fmt.Sscanf(text[i:], "pid %d", &pid); err != nil || pid < 2 || pid > 50 {
			t.Errorf("pid %d, %v", pid, err)
		}
		text = strings.Replace(text, fmt.Sprintf("pid %d ", pid), "pid 2 ", 1)
	}
	if diff := cmp.Diff([]any{text, cmd.ProcessState.ExitCode()}, []any{want, 7}); diff != "" {
		t.Error(diff)
	}
}

func TestAddressesAreUsedInTurn(t *testing.T) {
	t.Parallel()
	h := newHosts(netip.MustParsePrefix("10.0.0.1/29"))
	var got []string
	take := func() {
		ip, err := h.take()
		if err != nil {
			got = append(got, "none")
			return
		}
		got = append(got, ip.String())
	}
	take()
	take()
	h.release(netip.MustParseAddr("10.0.0.2"))
	for range 5 {
		take()
	}
	want := []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2", "none"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestParseIdentityMap(t *testing.T) {
	t.Parallel()
	got, err := parseIdentityMap("         0       1000          1\n         1     100000      65536\n")
	want := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 1, HostID: 1, Size: 65536}}
	if diff := cmp.Diff([]any{got, err}, []any{want, nil}); diff != "" {
		t.Error(diff)
	}
	if _, err := parseIdentityMap("0 x 1\n"); err == nil {
		t.Error("a malformed map is no error")
	}
}

func TestRemoveTreeRemovesWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.MkdirAll(filepath.Join(dir, "work", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "work"), 0); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}
