// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links one path may have.
const maxLinks = 64

// ResolveIn returns the path that name means for a process whose root is root:
// symbolic links are followed, and neither they nor .. lead out. What does not
// exist is taken as it is written.
func ResolveIn(root, name string) (string, error) {
	rest := strings.Split(name, "/")
	at, links := "/", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil { // not a link, or not there
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("resolve %s: too many symbolic links", name)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(root, at), nil
}

// makeTarget makes the place in root a mount goes to: a directory or a file.
func makeTarget(root, target string, dir bool) (string, error) {
	path, err := ResolveIn(root, target)
	if err != nil {
		return "", err
	}
	parent := path
	if !dir {
		parent = filepath.Dir(path)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("make mount point %s: %w", target, err)
	}
	if dir {
		return path, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("make mount point %s: %w", target, err)
	}
	return path, file.Close()
}
