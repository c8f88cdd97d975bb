// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// copyTree copies directories, files and symbolic links with mode and owner.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := copyEntry(path, filepath.Join(to, rel), info); err != nil {
			return fmt.Errorf("copy %s: %w", rel, err)
		}
		return nil
	})
}

func copyEntry(from, to string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case info.Mode().IsRegular():
		if err := copyFile(from, to); err != nil {
			return err
		}
	default:
		return nil // devices and sockets can't be made here
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(to, info.Mode())
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
