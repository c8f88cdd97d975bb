// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeRoot puts the image and a writable layer together, adds the mounts and
// makes the result the root of this mount namespace.
func makeRoot(spec *Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	root := filepath.Join(spec.Work, "root")
	if err := mountImage(spec, root); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return mountSystem(root) },
		func() error { return bindAll(root, spec.Mounts) },
		func() error { return makeCwd(root, spec.Process) },
		func() error { return pivot(root) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if spec.ReadOnlyRoot {
		return remountReadOnly("/")
	}
	return nil
}

// mountImage mounts an overlay, or copies the image where overlayfs refuses:
// on an overlay, for example, or on old kernels without root.
func mountImage(spec *Spec, root string) error {
	upper, work := filepath.Join(spec.Work, "upper"), filepath.Join(spec.Work, "work")
	for _, dir := range []string{root, upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make root: %w", err)
		}
	}
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`, ":", `\:`).Replace
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", escape(spec.Image), escape(upper), escape(work))
	// userxattr is what a user namespace must use, and the initial one may.
	err := unix.Mount("overlay", root, "overlay", 0, options+",userxattr")
	if err != nil {
		err = unix.Mount("overlay", root, "overlay", 0, options)
	}
	if err == nil {
		return nil
	}
	if copyErr := copyTree(spec.Image, root); copyErr != nil {
		return fmt.Errorf("overlayfs refused (%w) and copying the image failed: %w", err, copyErr)
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind root: %w", err)
	}
	return nil
}

// mountSystem makes /proc, /dev and /tmp.
func mountSystem(root string) error {
	for _, m := range []struct {
		kind, target, data string
		flags              uintptr
	}{
		{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "/dev", "mode=755,size=64k", unix.MS_NOSUID | unix.MS_STRICTATIME},
		{"tmpfs", "/dev/shm", "mode=1777,size=64m", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=620", unix.MS_NOSUID | unix.MS_NOEXEC},
	} {
		path, err := makeTarget(root, m.target, true)
		if err != nil {
			return err
		}
		if err := unix.Mount(m.kind, path, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		// A device can't be made in a user namespace, but bound from outside.
		if err := bind(root, Mount{Source: "/dev/" + name, Target: "/dev/" + name}); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(root, "dev", name)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	return makeTmp(root)
}

func makeTmp(root string) error {
	path, err := ResolveIn(root, "/tmp")
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make /tmp: %w", err)
	}
	return os.Chmod(path, 0o777|os.ModeSticky)
}

func bindAll(root string, mounts []Mount) error {
	for _, m := range mounts {
		if err := bind(root, m); err != nil {
			return err
		}
	}
	return nil
}

func bind(root string, m Mount) error {
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	path, err := makeTarget(root, m.Target, info.IsDir())
	if err != nil {
		return err
	}
	if err := unix.Mount(m.Source, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if m.ReadOnly {
		return remountReadOnly(path)
	}
	return nil
}

// remountReadOnly keeps the other flags: in a user namespace they are locked.
func remountReadOnly(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("read mount flags of %s: %w", path, err)
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY)
	for _, f := range []struct{ st, ms int64 }{
		{unix.ST_NOSUID, unix.MS_NOSUID},
		{unix.ST_NODEV, unix.MS_NODEV},
		{unix.ST_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, unix.MS_NOATIME},
		{unix.ST_NODIRATIME, unix.MS_NODIRATIME},
		{unix.ST_RELATIME, unix.MS_RELATIME},
	} {
		if st.Flags&f.st != 0 {
			flags |= uintptr(f.ms)
		}
	}
	if err := unix.Mount("", path, "", flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// makeCwd makes the working directory while that is still possible.
func makeCwd(root string, p Process) error {
	if p.Cwd == "" {
		return nil
	}
	path, err := ResolveIn(root, p.Cwd)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	return os.Chown(path, p.UID, p.GID)
}

// pivot makes root the root and detaches all that was there before.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	// With the same directory twice the old root ends up on top of the new one.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach old root: %w", err)
	}
	return os.Chdir("/")
}
