// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestParseMapsHostsToPaths(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for title, tt := range map[string]struct{ image, full, mirror string }{
		"a full name":        {"quay.io/org/app:v1", "quay.io/org/app:v1", "10.0.0.1:5000/quay.io/org/app:v1"},
		"a short name":       {"busybox", "docker.io/library/busybox:latest", "10.0.0.1:5000/docker.io/library/busybox:latest"},
		"a digest":           {"gcr.io/a/b@" + digest, "gcr.io/a/b@" + digest, "10.0.0.1:5000/gcr.io/a/b@" + digest},
		"a tag and a digest": {"gcr.io/a/b:v1@" + digest, "gcr.io/a/b@" + digest, "10.0.0.1:5000/gcr.io/a/b@" + digest},
		"a host with a port": {"localhost:99/b:v1", "localhost:99/b:v1", "10.0.0.1:5000/localhost_99/b:v1"},
		"the registry's own": {"10.0.0.1:5000/b:v1", "10.0.0.1:5000/b:v1", "10.0.0.1:5000/b:v1"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			ref, err := parse(tt.image, "10.0.0.1:5000")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{ref.full, ref.mirror.Name()}, []string{tt.full, tt.mirror}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := parse("UPPER/case", "r"); !errors.Is(err, ErrInvalidName) {
		t.Errorf("invalid name: %v", err)
	}
}

type entry struct {
	name, text string
	kind       byte
	mode       int64
}

func layer(t *testing.T, entries ...entry) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Uid: os.Getuid(), Gid: os.Getgid()}
		if e.kind == tar.TypeSymlink || e.kind == tar.TypeLink {
			h.Linkname = e.text
		} else {
			h.Size = int64(len(e.text))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, e.text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// files lists all files, links and directories below root with their content.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			got[rel] = "dir"
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			got[rel] = "-> " + target
			return err
		default:
			data, err := os.ReadFile(path)
			got[rel] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUnpackAppliesWhiteoutsAndStaysInside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	layers := []v1.Layer{
		layer(t, entry{"a/", "", tar.TypeDir, 0o755}, entry{"a/one", "1", tar.TypeReg, 0o644}, entry{"a/two", "2", tar.TypeReg, 0o644},
			entry{"b/old", "x", tar.TypeReg, 0o644}, entry{"run", "", tar.TypeDir, 0o755}, entry{"var/run", "/run", tar.TypeSymlink, 0o777},
			entry{"out", "../../..", tar.TypeSymlink, 0o777}),
		layer(t, entry{"a/.wh.one", "", tar.TypeReg, 0}, entry{"b/new", "y", tar.TypeReg, 0o644}, entry{"b/.wh..wh..opq", "", tar.TypeReg, 0},
			entry{"var/run/pid", "9", tar.TypeReg, 0o600}, entry{"out/evil", "z", tar.TypeReg, 0o644},
			entry{"../escape", "z", tar.TypeReg, 0o644}, entry{"hard", "a/two", tar.TypeLink, 0o644}, entry{"ro", "", tar.TypeDir, 0o500},
			entry{"ro/f", "f", tar.TypeReg, 0o400}),
	}
	for _, l := range layers {
		if err := unpackLayer(t.Context(), l, root); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"a": "dir", "a/two": "2", "b": "dir", "b/new": "y", "run": "dir", "run/pid": "9", "var": "dir", "var/run": "-> /run",
		"out": "-> ../../..", "evil": "z", "escape": "z", "hard": "2", "ro": "dir", "ro/f": "f",
	}
	if diff := cmp.Diff(files(t, root), want); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("outside of root: %v, %v", left, err)
	}
	if err := os.Chmod(filepath.Join(root, "ro"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestStorePullsWhatTheTagIsNow(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	dir := t.TempDir()
	store, err := NewStore(Options{Registry: host, Dir: filepath.Join(dir, "images"), Temp: filepath.Join(dir, "tmp")})
	if err != nil {
		t.Fatal(err)
	}
	push := func(text string) {
		img, err := mutate.AppendLayers(empty.Image, layer(t, entry{"f", text, tar.TypeReg, 0o644}))
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.ParseReference(host+"/quay.io/org/app:v1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, img); err != nil {
			t.Fatal(err)
		}
	}

	_, err = store.Pull(t.Context(), "quay.io/org/app:v1")
	if err == nil || !strings.Contains(err.Error(), "quay.io/org/app:v1") || !strings.Contains(err.Error(), "404") {
		t.Errorf("a missing image: %v", err)
	}
	if present, err := store.Present("quay.io/org/app:v1"); present != nil || err != nil {
		t.Errorf("present before it was pulled: %v, %v", present, err)
	}
	ids := map[string]bool{}
	for _, text := range []string{"one", "two", "two"} {
		push(text)
		img, err := store.Pull(t.Context(), "quay.io/org/app:v1")
		if err != nil {
			t.Fatal(err)
		}
		ids[img.ID] = true
		if diff := cmp.Diff(files(t, img.Root), map[string]string{"f": text}); diff != "" {
			t.Error(diff)
		}
		if present, err := store.Present("quay.io/org/app:v1"); present != img || err != nil {
			t.Errorf("not present after it was pulled: %v, %v", present, err)
		}
	}
	if len(ids) != 2 {
		t.Errorf("ids: %v", ids)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"passwd": "app:x:7:8::/:/bin/sh\n", "group": "users:x:9:\n"} {
		if err := os.WriteFile(filepath.Join(root, "etc", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for title, tt := range map[string]struct {
		user string
		want User
	}{
		"none is root":             {"", User{}},
		"numbers":                  {"65532:65533", User{UID: 65532, GID: 65533}},
		"a name has its own group": {"app", User{UID: 7, GID: 8, Name: "app"}},
		"a number that has a name": {"7", User{UID: 7, GID: 8}},
		"a named group":            {"5:users", User{UID: 5, GID: 9}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			got, err := (&Image{Root: root, Config: v1.Config{User: tt.user}}).User()
			if diff := cmp.Diff([]any{got, err}, []any{tt.want, nil}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := (&Image{Root: root, Config: v1.Config{User: "nobody"}}).User(); err == nil {
		t.Error("an unknown user is no error")
	}
}
