// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Runtime starts containers.
type Runtime struct {
	// SelfArgs is the argv that ends up in Main.
	SelfArgs []string
}

// Streams are the standard streams of a process. Nil is /dev/null.
type Streams struct{ Stdin, Stdout, Stderr *os.File }

// Running is a container that was started.
type Running struct {
	// PID is its first process, as seen by the caller.
	PID int
	cmd *exec.Cmd
}

// Exit is how a container ended.
type Exit struct {
	// Code is the exit code, or 128 plus the signal.
	Code int
	// Signal is what killed it, or 0.
	Signal int
}

// Start starts a container in the network namespace, or in the caller's when
// that is nil. It returns when the container's program runs; an error is a
// *StartError unless the machine itself had a problem. The caller must Wait.
func (r Runtime) Start(spec Spec, netNS *os.File, streams Streams) (*Running, error) {
	cmd := r.command(streams)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
	}
	var extra []*os.File
	if netNS != nil {
		extra = append(extra, netNS)
	}
	if err := launch(cmd, request{Start: &spec, NetNS: netNS != nil}, extra); err != nil {
		return nil, err
	}
	return &Running{PID: cmd.Process.Pid, cmd: cmd}, nil
}

// Exec runs a process in a running container until it ends or ctx does, and
// returns its exit code. With tty, Stdin must be a terminal.
func (r Runtime) Exec(ctx context.Context, pid int, p Process, tty bool, streams Streams) (int, error) {
	cmd := r.command(streams)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := launch(cmd, request{Enter: &enterSpec{PID: pid, TTY: tty, Process: p}}, nil); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() {
		// Already gone is as good.
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	exit, err := wait(cmd)
	if !stop() {
		return 0, fmt.Errorf("run in container: %w", context.Cause(ctx))
	}
	return exit.Code, err
}

// Wait returns how the container ended. It must be called once.
func (c *Running) Wait() (Exit, error) { return wait(c.cmd) }

// Signal sends a signal to the first process. The kernel passes it on only if
// the process handles it, except for SIGKILL, which ends the whole container.
func (c *Running) Signal(s syscall.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal container: %w", err)
	}
	return nil
}

func (r Runtime) command(streams Streams) *exec.Cmd {
	cmd := exec.Command(r.SelfArgs[0], r.SelfArgs[1:]...) //nolint:gosec,noctx // the caller's own binary, which outlives the call
	cmd.Env = []string{}
	// A nil *os.File in an interface is not nil.
	if streams.Stdin != nil {
		cmd.Stdin = streams.Stdin
	}
	if streams.Stdout != nil {
		cmd.Stdout = streams.Stdout
	}
	if streams.Stderr != nil {
		cmd.Stderr = streams.Stderr
	}
	return cmd
}

// launch starts cmd, hands it the request and waits for its reply.
func launch(cmd *exec.Cmd, req request, extra []*os.File) error {
	requestR, requestW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer requestW.Close()
	replyR, replyW, err := os.Pipe()
	if err != nil {
		requestR.Close()
		return fmt.Errorf("make pipe: %w", err)
	}
	defer replyR.Close()
	cmd.ExtraFiles = append([]*os.File{requestR, replyW}, extra...)
	err = cmd.Start()
	requestR.Close()
	replyW.Close()
	if err != nil {
		return fmt.Errorf("start container process: %w", err)
	}
	err = json.NewEncoder(requestW).Encode(req)
	if err == nil {
		err = readReply(replyR)
	}
	if err == nil {
		return nil
	}
	// It is ending by itself, unless the request did not get through.
	killErr := cmd.Process.Kill()
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	_, waitErr := wait(cmd)
	if killErr != nil || waitErr != nil {
		return errors.Join(err, killErr, waitErr)
	}
	return err
}

// readReply returns nil when the other end was closed by a successful exec.
func readReply(r io.Reader) error {
	var failed StartError
	err := json.NewDecoder(r).Decode(&failed)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("read reply of container process: %w", err)
	}
	return &failed
}

func wait(cmd *exec.Cmd) (Exit, error) {
	err := cmd.Wait()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return Exit{}, fmt.Errorf("wait for container: %w", err)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}, nil
	}
	return Exit{Code: cmd.ProcessState.ExitCode()}, nil
}
