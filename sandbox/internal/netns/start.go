// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
)

// BridgeName is the bridge all Pods hang on.
const BridgeName = "sandbox0"

// envSpec carries the initSpec from Start to Main.
const envSpec = "CAPSTAN_NETNS_SPEC"

// Options says what to run inside and how the inside looks.
type Options struct {
	// Init is the argv that ends up in Main: the caller's own binary and its
	// hidden command.
	Init []string
	// Argv is the program to run inside, as the only child of PID 1.
	Argv []string
	// Env is the environment of Argv. Nil: that of the caller.
	Env []string
	// Dir is the working directory. Empty: that of the caller.
	Dir string
	// Stdin, Stdout and Stderr are handed on as they are. Nil: /dev/null.
	Stdin, Stdout, Stderr *os.File
	// ExtraFiles are file descriptors 3 and up of Argv.
	ExtraFiles []*os.File
	// Bridge is the address of the bridge with the length of the Pod network.
	// Default 10.244.0.1/16.
	Bridge netip.Prefix
	// Hostname is the name inside. Default: that of the machine.
	Hostname string
	// DieWithParent ends the sandbox when the calling process ends. Without it
	// the sandbox lives on, in a session of its own.
	DieWithParent bool
}

// initSpec is what Main needs to know.
type initSpec struct {
	Argv       []string     `json:"argv"`
	ExtraFiles int          `json:"extraFiles"`
	Bridge     netip.Prefix `json:"bridge"`
	Hostname   string       `json:"hostname,omitempty"`
	// Leash says that the file descriptor after the extra files is the read end
	// of a pipe that closes when the parent is gone.
	Leash bool `json:"leash"`
}

// Start starts Argv in new namespaces. For root all ids are mapped to
// themselves; a plain user becomes root inside and has no other id there. Where
// the kernel refuses user namespaces to root, the sandbox goes without one.
//
// The returned command is running: Process.Pid is PID 1 of the sandbox as seen
// from outside, Wait gives the exit code of Argv, and killing it ends everything.
func Start(o Options) (*exec.Cmd, error) {
	cmd, err := start(o, true)
	if err == nil {
		return cmd, nil
	}
	if os.Geteuid() == 0 {
		if cmd, plainErr := start(o, false); plainErr == nil {
			return cmd, nil
		}
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return nil, fmt.Errorf("start sandbox: the kernel allows no user namespace here (%w): "+
			"check sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and "+
			"kernel.apparmor_restrict_unprivileged_userns, or run as root", err)
	}
	return nil, fmt.Errorf("start sandbox: %w", err)
}

func start(o Options, userNS bool) (*exec.Cmd, error) {
	if len(o.Init) == 0 || len(o.Argv) == 0 {
		return nil, errors.New("Options.Init and Options.Argv must be set")
	}
	cmd := exec.Command(o.Init[0], o.Init[1:]...) //nolint:gosec,noctx // the caller's own binary, which outlives the call
	cmd.Dir = o.Dir
	setStreams(cmd, o)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     !o.DieWithParent,
	}
	if userNS {
		if err := mapIDs(cmd.SysProcAttr); err != nil {
			return nil, err
		}
	}
	spec := initSpec{Argv: o.Argv, ExtraFiles: len(o.ExtraFiles), Bridge: o.Bridge, Hostname: o.Hostname, Leash: o.DieWithParent}
	if !spec.Bridge.IsValid() {
		spec.Bridge = netip.MustParsePrefix("10.244.0.1/16")
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, o.ExtraFiles...)
	if spec.Leash {
		end, err := leash()
		if err != nil {
			return nil, err
		}
		defer end.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, end)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	cmd.Env = append(cmd.Environ(), envSpec+"="+string(data))
	if o.Env != nil {
		cmd.Env = append(append([]string{}, o.Env...), envSpec+"="+string(data))
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd, nil
}

func setStreams(cmd *exec.Cmd, o Options) {
	// A nil *os.File in an io.Reader is not a nil io.Reader.
	if o.Stdin != nil {
		cmd.Stdin = o.Stdin
	}
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	if o.Stderr != nil {
		cmd.Stderr = o.Stderr
	}
}

// leash returns the read end of a pipe whose write end stays open, unseen, for
// as long as this process lives. A parent-death signal would not do: it is tied
// to the thread that started the child, and the Go runtime may end threads.
func leash() (*os.File, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "leash"), nil
}
