// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"crypto/md5" //nolint:gosec // Metal3 takes MD5 for a checksum without a type
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// Algorithms returns the digests that can be asked for.
func Algorithms() []string { return []string{"md5", "sha256", "sha512"} }

func newHash(name string) hash.Hash {
	switch name {
	case "md5":
		return md5.New() //nolint:gosec // as above
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}

// digests reads a file once and returns its sha256 and the others that are asked for.
func digests(ctx context.Context, r io.Reader, others []string) (map[string]string, error) {
	hashes := map[string]hash.Hash{"sha256": sha256.New()}
	writers := []io.Writer{hashes["sha256"]}
	for _, name := range others {
		h := newHash(name)
		if h == nil {
			return nil, fmt.Errorf("there is no digest %q", name)
		}
		if hashes[name] == nil {
			hashes[name] = h
			writers = append(writers, h)
		}
	}
	if _, err := io.CopyBuffer(io.MultiWriter(writers...), &interruptible{ctx, r}, make([]byte, 1<<20)); err != nil {
		return nil, fmt.Errorf("read for the digest: %w", err)
	}
	out := map[string]string{}
	for name, h := range hashes {
		out[name] = hex.EncodeToString(h.Sum(nil))
	}
	return out, nil
}
