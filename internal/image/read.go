// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"io"
)

// recent keeps the values that were put last.
type recent[K comparable, V any] struct {
	values map[K]V
	order  []K
	limit  int
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{values: map[K]V{}, limit: limit}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	v, ok := r.values[key]
	return v, ok
}

func (r *recent[K, V]) put(key K, value V) {
	if len(r.order) == r.limit {
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
	r.values[key] = value
	r.order = append(r.order, key)
}

// readFull fills p, and takes an end within it for an error.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// disk is the disk that an image describes.
type disk interface {
	io.ReaderAt
	// Size is its size in bytes.
	Size() int64
}
