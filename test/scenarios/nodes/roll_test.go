// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes rolls node images over workload clusters on simulated hosts.
package nodes

import (
	"bufio"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/scenarios/bed"
)

// unreachable accepts that nothing serves the images of simulated hosts.
const unreachable = "CAP-IMAGE-REACHABLE=the hosts are simulated, and so are their images"

// image writes a catalog entry of one of the sandbox's images, with the kernel that it is said to hold.
func image(t *testing.T, name string, revision int, kernel string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	bed.Write(t, file, fmt.Appendf(nil, `apiVersion: capstan.dev/v1alpha1
kind: NodeImage
metadata: {name: %s}
spec:
  url: http://images.sandbox.capstan.dev/ubuntu-22.04-v1.36.3-r%d.qcow2
  checksum: %dba8dc7af0b0a6a0b8b8ee66a9b3e4a5d1e55cbb9b4a77cdb3e8fd1b5a1ec00%d
  checksumType: sha256
  format: qcow2
  contents: {kernelVersion: %s, kubeletVersion: v1.36.3}
`, name, revision, revision, revision, kernel))
	return file
}

// host is a host as `sandbox host list` tells.
type host struct{ Name, Pool, State, Image, Consumer string }

func hosts(t *testing.T, b *bed.Bed) []host {
	t.Helper()
	return bed.Decode[[]host](t, b.Must(t, b.Sandbox(t.Context(), "host", "list", "-o", "json")).Stdout)
}

// on counts the hosts of each pool by the revision of the image on them.
func on(hosts []host) map[string]int {
	out := map[string]int{}
	for _, h := range hosts {
		out[fmt.Sprintf("%s %s", h.Pool, h.Image[strings.LastIndex(h.Image, "-")+1:])]++
	}
	return out
}

// TestRollWithoutASpareHost rolls five hosts to another image with none to spare. The first catalog entry says something
// else than the image holds: one node comes up, and nothing else is taken away. The next roll, to an entry that is right,
// takes over from there; its process is killed on the way. Every role ends on its own hosts, and the cluster answers all
// the while.
func TestRollWithoutASpareHost(t *testing.T) {
	b := bed.StartMetal(t, 5)
	before := hosts(t, b)
	wrong, right := image(t, "wrong", 2, "5.15.0-999-generic"), image(t, "right", 2, "5.15.0-118-generic")

	since := time.Now()
	bed.Want(t, b.Capstan(t.Context(), "nodes", "upgrade", right, "--yes"), 3, "CAP-IMAGE-REACHABLE")
	bed.Want(t, b.Capstan(t.Context(), "nodes", "plan", right, "--accept", unreachable), 0, "ScaleIn", "quorum 2 of 3", "Machines replaced: 5")
	if writes := b.Writes(t, since); len(writes) > 0 {
		t.Errorf("plans wrote: %v", writes)
	}

	stopped := b.Capstan(t.Context(), "nodes", "upgrade", wrong, "--yes", "--accept", unreachable)
	bed.Want(t, stopped, 5, v1alpha1.StopImageMismatch, "kernel is 5.15.0-118-generic, not 5.15.0-999-generic")
	if diff := cmp.Diff(map[string]int{"control-plane r1": 2, "control-plane r2": 1, "workers r1": 2}, on(hosts(t, b))); diff != "" {
		t.Errorf("images on hosts after the wrong one, -want +got:\n%s", diff)
	}

	killed(t, b, "nodes", "upgrade", right, "--yes", "--accept", unreachable)
	bed.Want(t, b.Capstan(t.Context(), "resume"), 0, "Done: 5 Machines of 2 pools run right", " 0 failed")
	after := hosts(t, b)
	if diff := cmp.Diff(map[string]int{"control-plane r2": 3, "workers r2": 2}, on(after)); diff != "" {
		t.Errorf("images on hosts, -want +got:\n%s", diff)
	}
	for i, h := range after {
		if h.Name != before[i].Name || h.Pool != before[i].Pool || h.Consumer == "" || h.Consumer == before[i].Consumer {
			t.Errorf("host %s of %s has %q, had %q", h.Name, h.Pool, h.Consumer, before[i].Consumer)
		}
	}
	replaced(t, b, since)
	bed.Want(t, b.Capstan(t.Context(), "nodes", "upgrade", right, "--yes", "--accept", unreachable), 0, "nothing to do")
	bed.Want(t, b.Capstan(t.Context(), "history"), 0, "right", "Completed", "wrong", "Superseded")
}

// killed starts capstan, and kills it once it has taken a Machine away.
func killed(t *testing.T, b *bed.Bed, args ...string) {
	t.Helper()
	cmd := b.Command(t.Context(), "capstan", args...)
	progress, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), "deprovisioning") {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("kill: %v\n%s", err, strings.Join(said, "\n"))
	}
	if err := cmd.Wait(); err == nil {
		t.Errorf("capstan ended by itself:\n%s", strings.Join(said, "\n"))
	}
}

// replaced checks by the audit log that no Machine was let go twice, and that no one was before the one ahead of it was
// gone: what Capstan writes to Machines are hooks.
func replaced(t *testing.T, b *bed.Bed, since time.Time) {
	t.Helper()
	hooks := map[string]int{}
	for _, w := range b.Writes(t, since) {
		if _, name, found := strings.Cut(w, " machines.cluster.x-k8s.io "); found {
			hooks[strings.Fields(name)[0]]++
		}
	}
	if len(hooks) < 5 {
		t.Errorf("hooks of %d Machines were written, want those of all that were replaced: %v", len(hooks), hooks)
	}
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		if hooks[name] > 2 {
			t.Errorf("%s was written to %d times, want one hook put there and taken away", name, hooks[name])
		}
	}
}
