// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package built finds the programs that the scenarios run, and builds them where nobody has: so that `go test` alone is
// enough. Several packages may ask at once; one builds.
package built

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Variable names the folder with the binaries capstan and sandbox. Set to nothing, it asks for the stories to be skipped;
// not set at all, the binaries are built.
const Variable = "CAPSTAN_SCENARIOS"

// Binaries returns the folder with the built binaries, or skips the test where they are not wanted.
func Binaries(t *testing.T) string {
	t.Helper()
	bin, given := os.LookupEnv(Variable)
	switch {
	case given && bin == "":
		t.Skipf("skipped: %s is set to nothing; unset it, or name the folder with the binaries capstan and sandbox", Variable)
	case given:
		return bin
	}
	root, err := root()
	if err == nil {
		err = once(root, func() error { return run(root, "make", "build") })
	}
	if err != nil {
		t.Fatalf("build capstan and sandbox: %v", err)
	}
	return filepath.Join(root, "bin")
}

// Assets returns a folder with the programs of a control plane, for tests that start one themselves. Where bin/assets
// lacks them, the sandbox builds them, or takes them from its cache.
func Assets() (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "assets")
	err = once(root, func() error {
		if complete(dir) {
			return nil
		}
		return run(root, "make", "assets")
	})
	if err != nil {
		return "", fmt.Errorf("build the programs of a control plane: %w", err)
	}
	return dir, nil
}

// complete tells whether a folder has all the programs; links that lead nowhere don't count.
func complete(dir string) bool {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// root returns the repository's folder: the nearest one above with a Makefile.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "Makefile")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the repository: no Makefile in any folder above")
		}
		dir = up
	}
}

// once does something while nobody else in this repository does.
func once(root string, do func() error) error {
	dir := filepath.Join(root, "bin")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a file of the build's own
	if err != nil {
		return fmt.Errorf("open the build's lock: %w", err)
	}
	defer func() { _ = f.Close() }() // Closing gives the lock back.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the build: %w", err)
	}
	return do()
}

// run runs a command in a folder. The flags of the test that runs are no flags for it.
func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:gosec,noctx // make, with our own targets; the test's end ends it
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
