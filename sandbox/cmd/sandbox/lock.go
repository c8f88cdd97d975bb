// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// errLocked means that a sandbox lives in the directory, or that another command is about to start one there.
var errLocked = errors.New("the sandbox's directory is in use")

// lock takes the lock of a directory that exists. The supervisor inherits the open file and so holds the lock until the last process of the
// sandbox is gone, however it ends.
func lock(l supervisor.Layout) (*os.File, error) {
	f, err := os.OpenFile(l.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", l.Lock(), err)
	}
	return f, nil
}
