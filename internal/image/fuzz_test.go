// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/capstan-dev/capstan/internal/image"
)

// FuzzOpenImage goes the whole way from bytes to a report. It fails by a panic, by what takes too long or too much memory,
// and by a fault that does not name the image and a next step.
func FuzzOpenImage(f *testing.F) {
	f.Add(header(func([]byte) {}))
	f.Add(header(func(h []byte) { h[79] = 8; h[104] = 1 }))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00"))
	f.Add(make([]byte, 4096))
	for _, name := range seeds(f) {
		f.Add(name)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) { whole(t, dir, data) })
}

// FuzzOpenPatchedImage changes single bytes of real images, which leads further than made-up ones: each three bytes of the
// input say where, and what.
func FuzzOpenPatchedImage(f *testing.F) {
	images := append(seeds(f), plain(f, "testdata/xfs.qcow2.gz")) // too large to be mutated as a whole
	for i := range images {
		f.Add(uint8(i), []byte{0, 4, 24, 8})
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, which uint8, patches []byte) {
		data := bytes.Clone(images[int(which)%len(images)])
		for ; len(patches) >= 4; patches = patches[4:] {
			at := int(patches[0])<<16 | int(patches[1])<<8 | int(patches[2])
			data[at%len(data)] = patches[3]
		}
		whole(t, dir, data)
	})
}

// whole goes the whole way.
func whole(t *testing.T, dir string, data []byte) {
	t.Helper()
	r, err := image.Inspect(t.Context(), "fuzz.img", bytes.NewReader(data), int64(len(data)), image.Options{
		AllPackages: true, Modules: []string{"x"}, NoDigest: true, TempDir: dir,
	})
	if err != nil {
		reason(t, "fuzz.img", err)
		if strings.Contains(err.Error(), "not foreseen") {
			t.Error(err)
		}
		return
	}
	image.Diff(r, r)
	r.Contents()
}

// seeds are small real images: each kind of file system and table, with packages and modules.
func seeds(f *testing.F) [][]byte {
	f.Helper()
	names, err := filepath.Glob("testdata/seeds/*.gz")
	if err != nil || len(names) == 0 {
		f.Fatalf("there are no seeds: %v", err)
	}
	var out [][]byte
	for _, name := range names {
		out = append(out, plain(f, name))
	}
	return out
}

func plain(tb testing.TB, name string) []byte {
	tb.Helper()
	f, err := os.Open(name) //nolint:gosec // its own test data
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
