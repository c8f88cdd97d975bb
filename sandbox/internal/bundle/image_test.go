// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/sandbox/internal/registry"
)

// testProgram writes a file that stands for a binary.
func testProgram(t *testing.T, text string) program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program{image: "quay.io/x/webhook:v1.2.3", binary: file, path: "/app/cmd/webhook/webhook", user: nonroot, source: "https://example.com"}
}

func makeImage(t *testing.T, p program, certs string) v1.Image {
	t.Helper()
	base, err := newBaseImage([]byte(certs))
	if err != nil {
		t.Fatal(err)
	}
	img, err := p.makeImage(base)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// pull makes a program's image, puts it into a registry and pulls it as a node does.
func pull(t *testing.T, p program, certs string) v1.Image {
	t.Helper()
	store := registry.Store{Dir: t.TempDir()}
	base, err := newBaseImage([]byte(certs))
	if err != nil {
		t.Fatal(err)
	}
	if err := addProgram(store, base, p); err != nil {
		t.Fatal(err)
	}
	l := &registry.Layered{Upper: registry.Store{Dir: t.TempDir()}, Lower: []registry.Store{store}}
	server := httptest.NewServer(l.Handler(nil))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/"+p.image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestAnImageHoldsTheProgramAndWhatItExpects(t *testing.T) {
	t.Parallel()
	img := pull(t, testProgram(t, "program"), "authorities")
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	got := map[string]string{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 {
			t.Errorf("%s is from %s, want the epoch", h.Name, h.ModTime)
		}
		got[h.Name] = fmt.Sprintf("%o", h.Mode)
		if h.Name == "app/cmd/webhook/webhook" || h.Name == "etc/ssl/certs/ca-certificates.crt" {
			got[h.Name] += " " + string(text)
		}
	}
	want := map[string]string{
		"app": "755", "app/cmd": "755", "app/cmd/webhook": "755", "app/cmd/webhook/webhook": "755 program",
		"dev": "755", "etc": "755", "etc/group": "644", "etc/nsswitch.conf": "644", "etc/passwd": "644", "etc/ssl": "755",
		"etc/ssl/certs": "755", "etc/ssl/certs/ca-certificates.crt": "644 authorities", "home": "755", "home/nonroot": "700",
		"proc": "755", "root": "700", "run": "755", "sys": "755", "tmp": "1777", "var": "755", "var/run": "755",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("files (-got +want):\n%s", diff)
	}

	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{config.Config.Entrypoint, config.Config.User, config.OS},
		[]any{[]string{"/app/cmd/webhook/webhook"}, "65532", "linux"}); diff != "" {
		t.Errorf("configuration (-got +want):\n%s", diff)
	}
}

func TestTheSameProgramGivesTheSameDigest(t *testing.T) {
	t.Parallel()
	digest := func(text, certs string) string {
		d, err := makeImage(t, testProgram(t, text), certs).Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	want := digest("program", "authorities")
	if got := digest("program", "authorities"); got != want {
		t.Errorf("digests of the same program are %s and %s", got, want)
	}
	if got := digest("other program", "authorities"); got == want {
		t.Error("another program has the same digest")
	}
	if got := digest("program", ""); got == want {
		t.Error("other certificates give the same digest")
	}
}

func TestLayersAreWhatTheirMediaTypeSays(t *testing.T) {
	t.Parallel()
	layers, err := makeImage(t, testProgram(t, "program"), "").Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		mediaType, err := layer.MediaType()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		diffID, err := layer.DiffID()
		if err != nil {
			t.Fatal(err)
		}
		if mediaType != types.OCIUncompressedLayer || digest != diffID {
			t.Errorf("layer is %s with digest %s and diff ID %s, want plain tar", mediaType, digest, diffID)
		}
	}
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	base, err := newBaseImage(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := testProgram(t, "")
	p.binary = filepath.Join(t.TempDir(), "missing")
	if err := addProgram(registry.Store{Dir: t.TempDir()}, base, p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want a missing file", err)
	}
}
