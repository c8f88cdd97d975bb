// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolveInNeverLeavesTheRoot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for link, target := range map[string]string{
		"var/run": "/run", "up": "../../../../etc", "loop": "loop", "chain": "var/run/x",
	} {
		path := filepath.Join(root, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ path, want string }{
		"a plain path":                  {"/a/b", "/a/b"},
		"dots do not lead out":          {"/../../a", "/a"},
		"an absolute link":              {"/var/run/secrets", "/run/secrets"},
		"a link with dots":              {"/up/passwd", "/etc/passwd"},
		"a link to a path with a link":  {"chain", "/run/x"},
		"what follows a link with dots": {"/var/run/../x", "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ResolveIn(root, tt.path)
			if diff := cmp.Diff([]any{got, err}, []any{filepath.Join(root, tt.want), nil}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := ResolveIn(root, "loop"); err == nil {
		t.Error("an endless link is no error")
	}
}

func TestCapabilityMask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		add, drop  []string
		privileged bool
		want       uint64
	}{
		"nothing is left when all are dropped": {drop: []string{"ALL"}},
		"what is added counts after the drop":  {add: []string{"NET_BIND_SERVICE"}, drop: []string{"ALL"}, want: 1 << 10},
		"the prefix may be given":              {add: []string{"CAP_CHOWN"}, drop: []string{"all"}, want: 1},
		"as container engines do":              {want: 0xa80425fb},
		"privileged has all":                   {privileged: true, drop: []string{"ALL"}, want: 1<<41 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := CapabilityMask(tt.add, tt.drop, tt.privileged)
			if diff := cmp.Diff([]any{got, err}, []any{tt.want, nil}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := CapabilityMask([]string{"FLY"}, nil, false); err == nil {
		t.Error("an unknown capability is no error")
	}
}

func TestParseHeldCountsWhatCannotBeReclaimed(t *testing.T) {
	t.Parallel()
	status := "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t     100 kB\nRssFile:\t     700 kB\nRssShmem:\t       1 kB\n"
	if diff := cmp.Diff(parseHeld([]byte(status)), int64(101*1024)); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryOfThisProcess(t *testing.T) {
	t.Parallel()
	held, err := Memory(os.Getpid())
	if err != nil || held < 1<<20 {
		t.Errorf("held %d, %v", held, err)
	}
	if held, err := Memory(1 << 30); err != nil || held != 0 {
		t.Errorf("no process: held %d, %v", held, err)
	}
}

func TestCopyTree(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	if err := os.MkdirAll(filepath.Join(from, "d"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "d", "f"), []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("d/f", filepath.Join(from, "l")); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(to, "l"))
	if err != nil || string(data) != "x" {
		t.Errorf("through the link: %q, %v", data, err)
	}
	info, err := os.Stat(filepath.Join(to, "d", "f"))
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode: %v, %v", info, err)
	}
}
