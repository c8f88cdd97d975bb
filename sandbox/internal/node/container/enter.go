// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter runs a process in the container whose first process is PID, and waits.
func enter(spec *enterSpec) (int, error) {
	if err := joinNamespaces(spec.PID); err != nil {
		return exitFailed, err
	}
	path, err := lookUp(spec.Process)
	if err != nil {
		return exitFailed, err
	}
	if err := giveStreams(spec.Process); err != nil {
		return exitFailed, err
	}
	attr := &syscall.ProcAttr{
		Dir:   cwd(spec.Process),
		Env:   spec.Env,
		Files: []uintptr{0, 1, 2},
		// No parent-death signal: the child would compare its parent's pid, which
		// is none of its namespace, and end itself. See killWith.
		Sys: &syscall.SysProcAttr{Setsid: spec.TTY, Setctty: spec.TTY},
	}
	if err := limitChild(spec.Process, attr.Sys); err != nil {
		return exitFailed, err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	pid, err := syscall.ForkExec(path, spec.Args, attr)
	if err != nil {
		return exitFailed, &StartError{Stage: StageExec, Message: fmt.Sprintf("exec %q: %v", path, err)}
	}
	// Close: this is how the caller learns that the program runs.
	if err := unix.Close(fdReply); err != nil {
		return exitFailed, fmt.Errorf("close reply: %w", err)
	}
	go killWith(stop, pid)
	return waitFor(pid)
}

// killWith passes the end of this process, asked for by SIGTERM, on to the child.
func killWith(stop <-chan os.Signal, pid int) {
	<-stop
	// Gone already is as good.
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func joinNamespaces(pid int) error {
	// The mount namespace goes last: after it /proc is another one.
	names := []struct {
		name string
		flag int
	}{
		{"net", unix.CLONE_NEWNET},
		{"uts", unix.CLONE_NEWUTS},
		{"ipc", unix.CLONE_NEWIPC},
		{"pid", unix.CLONE_NEWPID},
		{"mnt", unix.CLONE_NEWNS},
	}
	fds := make([]int, len(names))
	for i, n := range names {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, n.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s namespace: %w", n.name, err)
		}
		fds[i] = fd
	}
	// Threads that share root and working directory can't change namespaces.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare root: %w", err)
	}
	for i, n := range names {
		if err := unix.Setns(fds[i], n.flag); err != nil {
			return fmt.Errorf("enter %s namespace: %w", n.name, err)
		}
	}
	return nil
}

// limitChild sets the child's ids, and this thread's capabilities for it to
// inherit.
func limitChild(p Process, attr *syscall.SysProcAttr) error {
	if err := boundCapabilities(p.Capabilities); err != nil {
		return err
	}
	if p.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no new privileges: %w", err)
		}
	}
	if p.UID == 0 && p.GID == 0 && len(p.Groups) == 0 {
		return setCapabilities(p.Capabilities)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.GID)} //nolint:gosec // ids are never negative
	for _, g := range p.Groups {
		attr.Credential.Groups = append(attr.Credential.Groups, uint32(g)) //nolint:gosec // ids are never negative
	}
	return nil
}

func waitFor(pid int) (int, error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return exitFailed, os.NewSyscallError("wait4", err)
		}
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}
