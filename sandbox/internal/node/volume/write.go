// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// dataLink is the link that is switched from the old files to the new ones. The
// name is the kubelet's: programs watch it.
const dataLink = "..data"

// Write makes dir hold exactly content, in one step:
//
//	dir/tls.crt -> ..data/tls.crt
//	dir/..data  -> ..4242          (replaced by rename)
//	dir/..4242/tls.crt
//
// It returns whether anything had to change. gid owns the files if it is not
// negative.
func Write(dir string, content Content, gid int) (bool, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // containers of any user read it
		return false, fmt.Errorf("make volume: %w", err)
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read volume: %w", err)
	}
	if err == nil && holds(filepath.Join(dir, old), content) {
		return false, nil
	}
	fresh, err := writeFiles(dir, content, gid)
	if err != nil {
		return false, err
	}
	if err := switchTo(dir, fresh); err != nil {
		return false, err
	}
	if err := linkNames(dir, content); err != nil {
		return false, err
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return false, fmt.Errorf("remove old files of volume: %w", err)
		}
	}
	return true, nil
}

func holds(dir string, content Content) bool {
	count := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		count++
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, ok := content[name]
		if !ok || !bytes.Equal(file.Data, data) {
			return errors.New("differs")
		}
		return nil
	})
	return err == nil && count == len(content)
}

func writeFiles(dir string, content Content, gid int) (string, error) {
	fresh, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return "", fmt.Errorf("make new files of volume: %w", err)
	}
	if err := os.Chmod(fresh, 0o755); err != nil { //nolint:gosec // containers of any user read it
		return "", fmt.Errorf("open volume: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		path := filepath.Join(fresh, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as above
			return "", fmt.Errorf("make directory in volume: %w", err)
		}
		if err := writeFile(path, content[name], gid); err != nil {
			return "", fmt.Errorf("write %s in volume: %w", name, err)
		}
	}
	return filepath.Base(fresh), nil
}

func writeFile(path string, file File, gid int) error {
	mode := fs.FileMode(file.Mode) & fs.ModePerm //nolint:gosec // checked by the API server
	if gid >= 0 {
		mode |= 0o040 // the group is there to read
	}
	if err := os.WriteFile(path, file.Data, mode); err != nil {
		return err
	}
	if gid >= 0 {
		if err := os.Chown(path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode) // whatever the umask
}

func switchTo(dir, fresh string) error {
	temp := filepath.Join(dir, dataLink+"_tmp")
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove left-over link: %w", err)
	}
	if err := os.Symlink(fresh, temp); err != nil {
		return fmt.Errorf("link new files of volume: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("switch volume to new files: %w", err)
	}
	return nil
}

// linkNames makes the links users see: one for each first part of a path.
func linkNames(dir string, content Content) error {
	want := map[string]bool{}
	for name := range content {
		first, _, _ := strings.Cut(name, "/")
		want[first] = true
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("link %s in volume: %w", name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read volume: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") || want[entry.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("remove %s from volume: %w", entry.Name(), err)
		}
	}
	return nil
}
