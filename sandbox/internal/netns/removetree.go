// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveTree removes a directory the sandbox has written, from outside too: there
// os.RemoveAll fails for a plain user, because images hold directories without
// write permission and overlayfs leaves one without any.
func RemoveTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// A directory is visited once before it is read, and again if reading
		// it failed: by then it can be read.
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make %s removable: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
