// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/md5" //nolint:gosec // as Airship's bundles have it
	"encoding/hex"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/internal/image"
)

// archive is a layer with files.
func archive(t *testing.T, content map[string]string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for file, text := range content {
		if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDiskImagesInARegistry(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	push := func(tag string, layers ...mutate.Addendum) {
		t.Helper()
		img, err := mutate.Append(empty.Image, layers...)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host + "/bundle:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
	}
	a, b := string(plain(t, "testdata/seeds/zlib.qcow2.gz")), string(plain(t, "testdata/seeds/plain.qcow2.gz"))
	sum := func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) + "  /img/x\n" } //nolint:gosec // as Airship's bundles have it
	push("two", mutate.Addendum{Layer: archive(t, map[string]string{"img/a.qcow2": a, "img/a.qcow2.md5sum": sum(a), "etc/x": "x"})},
		mutate.Addendum{Layer: archive(t, map[string]string{"img/b.qcow2": b, "img/b.qcow2.md5sum": sum(a)})})
	push("one", mutate.Addendum{Layer: static.NewLayer([]byte(a), types.MediaType("application/x-qcow2")), Annotations: map[string]string{"org.opencontainers.image.title": "a.qcow2"}})
	push("none", mutate.Addendum{Layer: archive(t, map[string]string{"etc/x": "x"})})

	for _, source := range []string{"two#a.qcow2", "one"} {
		r := mustInspect(t, "oci://"+host+"/bundle:"+source, image.Options{})
		if r.OS == nil || r.Format != "qcow2" || r.SizeBytes != int64(len(a)) {
			t.Errorf("%s: %+v", source, r)
		}
	}
	for source, want := range map[string]string{
		"two":         image.ReasonNotFound,
		"two#c.qcow2": image.ReasonNotFound,
		"two#b.qcow2": image.ReasonCorrupt,
		"none":        image.ReasonUnrecognised,
		"absent":      image.ReasonUnreachable,
	} {
		full := "oci://" + host + "/bundle:" + source
		_, err := inspect(t, full, image.Options{})
		if err == nil {
			t.Errorf("%s was read", source)
		} else if got := reason(t, full, err); got != want {
			t.Errorf("%s: %v", source, err)
		}
	}
}
