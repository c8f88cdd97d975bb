// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// Base is where the paths of a release begin. The zero value has no files: it belongs to a release that was found in
// the cluster.
type Base struct {
	// name is how people know it.
	name string
	// open gives access to the files; nil means that there are none.
	open func() (root, error)
}

// root is a tree of files that can't be left.
type root interface {
	// stat tells whether something is a directory or a regular file, and its size.
	stat(name string) (dir, regular bool, size int64, err error)
	read(name string) ([]byte, error)
	// entries returns what is in a directory.
	entries(name string) ([]entry, error)
	io.Closer
}

// entry is a file or directory in a directory.
type entry struct {
	name string
	dir  bool
}

// Dir is the base of a release in a directory. Neither a path nor a symbolic link leads out of it.
func Dir(dir string) Base {
	return Base{name: dir, open: func() (root, error) {
		r, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		return diskRoot{r}, nil
	}}
}

// memory is the base of a release in an archive.
func memory(name string, files map[string][]byte) Base {
	return Base{name: name, open: func() (root, error) { return memoryRoot(files), nil }}
}

// read returns a file, or the *.yaml files of a directory as one stream.
func (b Base) read(p string, limit int64) ([]byte, error) {
	if b.open == nil {
		return nil, problem.Usage(release.ReasonBadSource, "", "%s is a path, but the release is not in a directory", p).
			WithRemedy("use url or oci with a digest, or name the release by its directory")
	}
	clean := path.Clean(p)
	if path.IsAbs(p) || !fs.ValidPath(clean) {
		return nil, escapes(p)
	}
	files, err := b.open()
	if err != nil {
		return nil, problem.Usage(ReasonNoFile, "", "the release directory %s can't be opened: %v", b.name, cause(err)).WithCause(err)
	}
	defer func() { _ = files.Close() }() // Only reads were made.
	dir, regular, size, err := files.stat(clean)
	switch {
	case err != nil:
		return nil, b.unreadable(clean, err)
	case dir:
		return b.readDir(files, clean, limit)
	case !regular:
		return nil, problem.Usage(ReasonNoFile, "", "%s in %s is neither a file nor a directory", clean, b.name)
	case size > limit:
		return nil, tooLarge(clean, limit)
	}
	data, err := files.read(clean)
	if err != nil {
		return nil, b.unreadable(clean, err)
	}
	return data, nil
}

// readDir joins the files of a directory.
func (b Base) readDir(files root, dir string, limit int64) ([]byte, error) {
	entries, err := files.entries(dir)
	if err != nil {
		return nil, b.unreadable(dir, err)
	}
	var names []string
	for _, e := range entries {
		if !e.dir {
			names = append(names, e.name)
		}
	}
	var paths []string
	var contents [][]byte
	left := limit
	for _, name := range slices.Sorted(slices.Values(names)) {
		p := path.Join(dir, name)
		switch path.Ext(name) {
		case ".yml", ".json":
			return nil, problem.Usage(ReasonNoFile, "", "only *.yaml files of a directory are read, %s in %s would be left out", p, b.name).
				WithRemedy("rename it to *.yaml, or move it out of the directory")
		case ".yaml":
		default:
			continue
		}
		_, regular, size, err := files.stat(p)
		if err != nil {
			return nil, b.unreadable(p, err)
		}
		if !regular {
			return nil, problem.Usage(ReasonNoFile, "", "%s in %s is not a file", p, b.name)
		}
		if left -= size; left < 0 {
			return nil, tooLarge(dir, limit)
		}
		data, err := files.read(p)
		if err != nil {
			return nil, b.unreadable(p, err)
		}
		paths, contents = append(paths, p), append(contents, data)
	}
	if len(paths) == 0 {
		return nil, problem.Usage(ReasonNoFile, "", "directory %s in %s has no *.yaml file", dir, b.name)
	}
	return release.Join(paths, contents), nil
}

// unreadable puts an error of the file system in the user's words.
func (b Base) unreadable(p string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return problem.Usage(ReasonNoFile, "", "there is no %s in %s", p, b.name).WithCause(err)
	case strings.Contains(err.Error(), "escapes from parent"): // os.Root has no error value for it.
		return escapes(p)
	}
	return problem.Usage(ReasonNoFile, "", "%s in %s can't be read: %v", p, b.name, cause(err)).WithCause(err)
}

func escapes(p string) error {
	return problem.Usage(release.ReasonPathEscapes, "", "%q leads out of the release directory", p).
		WithRemedy("keep the files of a release in its directory")
}

func tooLarge(what string, limit int64) error {
	return problem.Blocked(ReasonTooLarge, "%s is larger than %d MiB", what, limit>>20)
}

// cause strips the operation and path that a file system error repeats.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// diskRoot is a directory on disk.
type diskRoot struct{ *os.Root }

func (d diskRoot) stat(name string) (dir, regular bool, size int64, err error) {
	info, err := d.Stat(name)
	if err != nil {
		return false, false, 0, err
	}
	return info.IsDir(), info.Mode().IsRegular(), info.Size(), nil
}

func (d diskRoot) read(name string) ([]byte, error) { return d.ReadFile(name) }

func (d diskRoot) entries(name string) ([]entry, error) {
	found, err := fs.ReadDir(d.FS(), name)
	if err != nil {
		return nil, err
	}
	out := make([]entry, 0, len(found))
	for _, e := range found {
		out = append(out, entry{name: e.Name(), dir: e.IsDir()})
	}
	return out, nil
}

// memoryRoot holds files by their path.
type memoryRoot map[string][]byte

func (m memoryRoot) stat(name string) (dir, regular bool, size int64, err error) {
	if data, ok := m[name]; ok {
		return false, true, int64(len(data)), nil
	}
	for p := range m {
		if strings.HasPrefix(p, name+"/") {
			return true, false, 0, nil
		}
	}
	return false, false, 0, fs.ErrNotExist
}

func (m memoryRoot) read(name string) ([]byte, error) {
	data, ok := m[name]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
	}
	return data, nil
}

func (m memoryRoot) entries(name string) ([]entry, error) {
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	seen := map[entry]bool{}
	for p := range m {
		rest, ok := strings.CutPrefix(p, prefix)
		if !ok {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		seen[entry{name: first, dir: deeper}] = true
	}
	if len(seen) == 0 {
		return nil, fs.ErrNotExist
	}
	return slices.Collect(maps.Keys(seen)), nil
}

// Close has nothing to give back.
func (memoryRoot) Close() error { return nil }
