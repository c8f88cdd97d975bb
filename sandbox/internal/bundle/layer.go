// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// streamLayer is a layer whose tar is made anew each time it is read, and is not compressed: a program of 80 MB is in memory at
// no time, and a node that unpacks it only copies.
type streamLayer struct {
	open   func() (io.ReadCloser, error)
	digest v1.Hash
	size   int64
}

func newStreamLayer(open func() (io.ReadCloser, error)) (*streamLayer, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	digest, size, err := v1.SHA256(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	return &streamLayer{open: open, digest: digest, size: size}, nil
}

// Digest implements v1.Layer.
func (l *streamLayer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID implements v1.Layer. Without compression it is the digest.
func (l *streamLayer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Compressed implements v1.Layer.
func (l *streamLayer) Compressed() (io.ReadCloser, error) { return l.open() }

// Uncompressed implements v1.Layer.
func (l *streamLayer) Uncompressed() (io.ReadCloser, error) { return l.open() }

// Size implements v1.Layer.
func (l *streamLayer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (l *streamLayer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// open streams the layer that has the binary and the directories above it; it is called several times.
func (p program) open() (io.ReadCloser, error) {
	f, err := os.Open(p.binary)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, w := io.Pipe()
	go func() {
		err := p.writeLayer(w, f, info.Size())
		_ = w.CloseWithError(errors.Join(err, f.Close())) // always nil
	}()
	return r, nil
}

func (p program) writeLayer(to io.Writer, binary io.Reader, size int64) error {
	w := tar.NewWriter(to)
	name := strings.TrimPrefix(p.path, "/")
	for i, c := range name {
		if c == '/' {
			if err := writeEntry(w, entry{name: name[:i+1], mode: 0o755}, strings.NewReader(""), 0); err != nil {
				return err
			}
		}
	}
	if err := writeEntry(w, entry{name: name, mode: 0o755}, binary, size); err != nil {
		return err
	}
	return w.Close()
}
