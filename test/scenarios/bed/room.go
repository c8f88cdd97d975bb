// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// room waits until the machine can carry one more sandbox, and keeps the place until the test ends. `go test` runs as
// many packages at once as there are cores, and a sandbox needs two of them to keep its controllers' time limits.
func room(t *testing.T) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		for place := range (runtime.NumCPU() + 1) / 2 {
			if f := take(t, place); f != nil {
				t.Cleanup(func() { _ = f.Close() }) // Closing gives the place back.
				t.Logf("waited %s for a place for the sandbox", time.Since(began).Round(time.Second))
				return
			}
		}
	}
}

// take returns the lock of a place, nil if another test has it.
func take(t *testing.T, place int) *os.File {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("capstan-scenarios-%d-%d.lock", os.Getuid(), place)) //nolint:usetesting // all packages have to meet there
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)                                            //nolint:gosec // a file of the tests' own
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return nil
	}
	return f
}
