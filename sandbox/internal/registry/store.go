// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// errNotFound means that there is no such blob, manifest or tag.
var errNotFound = errors.New("not found")

// removed is what a tag file holds when the tag is hidden from the stores below.
const removed = "removed"

// Store keeps blobs and tags in a directory:
//
//	blobs/sha256/HEX                 layers, configurations and manifests
//	tags/REPOSITORY/_tags/TAG        the digest the tag points at, or "removed"
//
// Files appear by rename, so a reader never sees half of one.
type Store struct {
	// Dir is the directory; it is made by the first write.
	Dir string
}

// blobPath is where a blob is kept. A v1.Hash is hex by construction and can't leave the directory.
func (s Store) blobPath(h v1.Hash) string {
	return filepath.Join(s.Dir, "blobs", h.Algorithm, h.Hex)
}

func (s Store) tagPath(repo, tag string) string {
	return filepath.Join(s.Dir, "tags", filepath.FromSlash(repo), "_tags", tag)
}

// openBlob opens a blob for reading and tells its size.
func (s Store) openBlob(h v1.Hash) (*os.File, int64, error) {
	f, err := os.Open(s.blobPath(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("blob %s: %w", h, errNotFound)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// writeBlob stores content and returns its digest. With a wanted digest, other content is refused.
func (s Store) writeBlob(r io.Reader, want *v1.Hash) (v1.Hash, error) {
	dir := filepath.Join(s.Dir, "blobs", "sha256")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return v1.Hash{}, err
	}
	tmp, err := os.CreateTemp(dir, ".upload-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone after the rename
	got, _, err := v1.SHA256(io.TeeReader(r, tmp))
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return v1.Hash{}, err
	}
	if want != nil && *want != got {
		return v1.Hash{}, fmt.Errorf("content is %s, not %s", got, *want)
	}
	return got, os.Rename(tmp.Name(), s.blobPath(got))
}

// readTag returns what a tag file holds: a digest, or the removed mark.
func (s Store) readTag(repo, tag string) (string, error) {
	text, err := os.ReadFile(s.tagPath(repo, tag))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("tag %s:%s: %w", repo, tag, errNotFound)
	}
	return strings.TrimSpace(string(text)), err
}

// writeTag points a tag at a digest, or marks it removed.
func (s Store) writeTag(repo, tag, value string) error {
	path := s.tagPath(repo, tag)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tag-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone after the rename
	_, err = tmp.WriteString(value + "\n")
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// tags returns every tag file: repository to tag to content.
func (s Store) tags() (map[string]map[string]string, error) {
	found := map[string]map[string]string{}
	root := filepath.Join(s.Dir, "tags")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing stored yet, or a temporary file that went away
		}
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if d.IsDir() || filepath.Base(dir) != "_tags" || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(dir))
		if err != nil {
			return err
		}
		repo := filepath.ToSlash(rel)
		value, err := s.readTag(repo, d.Name())
		if err != nil {
			return err
		}
		if found[repo] == nil {
			found[repo] = map[string]string{}
		}
		found[repo][d.Name()] = value
		return nil
	})
	return found, err
}
