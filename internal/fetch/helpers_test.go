// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/internal/problem"
)

// report is an error as a user meets it.
type report struct {
	Text   string
	Reason string
	Exit   problem.Exit
}

// reportOf reads an error; each pair of words in hide replaces what differs from run to run.
func reportOf(err error, hide ...string) report {
	if err == nil {
		return report{}
	}
	r := report{Text: strings.NewReplacer(hide...).Replace(err.Error()), Exit: problem.ExitOf(err)}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		r.Reason = p.Reason
	}
	return r
}

// files writes files into a new directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range content {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ociRegistry is an OCI registry in this process.
type ociRegistry struct{ host string }

func newRegistry(t *testing.T) ociRegistry {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return ociRegistry{strings.TrimPrefix(server.URL, "http://")}
}

// push stores an image with these layers and returns its digest.
func (r ociRegistry) push(t *testing.T, repository string, layers ...mutate.Addendum) string {
	t.Helper()
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(r.host + "/" + repository)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// tarLayer is a compressed tar archive, as image builders make it.
func tarLayer(t *testing.T, content map[string]string) mutate.Addendum {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, path := range slices.Sorted(maps.Keys(content)) {
		header := &tar.Header{Name: path, Mode: 0o600, Size: int64(len(content[path])), Typeflag: tar.TypeReg}
		if target, ok := strings.CutPrefix(content[path], "-> "); ok {
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, target, 0
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeSymlink {
			continue
		}
		if _, err := io.WriteString(w, content[path]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Addendum{Layer: layer}
}

// fileLayer is a plain file, as artifact tools push it.
func fileLayer(title, content string) mutate.Addendum {
	add := mutate.Addendum{Layer: static.NewLayer([]byte(content), types.MediaType("application/yaml"))}
	if title != "" {
		add.Annotations = map[string]string{"org.opencontainers.image.title": title}
	}
	return add
}
