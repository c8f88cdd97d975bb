// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// File descriptors the supervisor finds open.
const (
	fdLock = 3 + iota
	fdProxy
	fdRegistry
)

const (
	pollEvery  = 100 * time.Millisecond
	stopLimit  = 20 * time.Second
	startLimit = 3 * time.Minute
)

// daemon starts, awaits and stops the supervisor of one sandbox.
type daemon struct {
	layout supervisor.Layout
	clock  clock.Clock
}

// start writes the spec, opens the two listeners on the host's loopback interface and starts the supervisor in namespaces of its own. held is
// the directory's lock.
func (d daemon) start(spec supervisor.Spec, held *os.File) error {
	proxy, proxyFile, err := loopbackListener()
	if err != nil {
		return err
	}
	defer proxyFile.Close()
	registry, registryFile, err := loopbackListener()
	if err != nil {
		return err
	}
	defer registryFile.Close()
	spec.Inputs.ProxyURL = "http://" + proxy
	spec.Inputs.RegistryAddress = registry
	if err := os.MkdirAll(d.layout.Logs(), 0o700); err != nil {
		return fmt.Errorf("make log directory: %w", err)
	}
	if err := spec.Write(d.layout); err != nil {
		return err
	}
	log, err := os.OpenFile(d.layout.Log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd, err := netns.Start(netns.Options{
		Init:       []string{self, cmdNamespaceInit, d.layout.Dir},
		Argv:       []string{self, cmdSupervise, d.layout.Dir},
		Dir:        d.layout.Dir,
		Stdout:     log,
		Stderr:     log,
		ExtraFiles: []*os.File{held, proxyFile, registryFile},
		Hostname:   "sandbox-" + spec.Name,
	})
	if err != nil {
		return err
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(d.layout.PID(), []byte(pid+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("write process ID: %w", err), cmd.Process.Kill())
	}
	// The sandbox outlives this command; nobody waits for it.
	return cmd.Process.Release()
}

// await waits until the control plane and the node run.
func (d daemon) await(ctx context.Context, note func(string)) error {
	client := supervisor.NewClient(d.layout)
	deadline := d.clock.Now().Add(startLimit)
	for {
		st, err := client.Status(ctx)
		switch {
		case err == nil && st.Phase == supervisor.PhaseRunning:
			return nil
		case err == nil && st.Phase == supervisor.PhaseFailed:
			return errors.New(st.Message)
		case err == nil:
			note(starting(st))
		case !d.alive():
			return fmt.Errorf("the supervisor has ended:\n%s", d.lastWords())
		}
		if d.clock.Now().After(deadline) {
			return fmt.Errorf("the supervisor is not up after %s:\n%s", startLimit, d.lastWords())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.clock.After(pollEvery):
		}
	}
}

// starting names the component that is being waited for.
func starting(st supervisor.Status) string {
	for _, c := range st.Components {
		if c.State != supervisor.StateHealthy {
			return c.Name
		}
	}
	return ""
}

// alive says whether a process of the sandbox still holds the lock.
func (d daemon) alive() bool {
	f, err := lock(d.layout)
	if err == nil {
		_ = f.Close() // only lets the lock go
	}
	return errors.Is(err, errLocked)
}

// stop ends the sandbox: it asks, waits, and then kills the first process of the PID namespace, with which the kernel ends all others. It
// returns once no process holds the lock.
func (d daemon) stop(ctx context.Context) error {
	err := supervisor.NewClient(d.layout).Shutdown(ctx)
	if err != nil && !errors.Is(err, supervisor.ErrNotRunning) && !errors.Is(err, supervisor.ErrStuck) {
		return fmt.Errorf("ask the supervisor to stop: %w", err)
	}
	if err == nil && d.gone(ctx, stopLimit) {
		return nil
	}
	if err := d.kill(); err != nil {
		return err
	}
	if !d.gone(ctx, stopLimit) {
		return hint(fmt.Errorf("processes of the sandbox in %s do not end", d.layout.Dir), "look for %q in `ps axf`", cmdNamespaceInit)
	}
	return nil
}

func (d daemon) gone(ctx context.Context, limit time.Duration) bool {
	for deadline := d.clock.Now().Add(limit); d.clock.Now().Before(deadline); {
		if !d.alive() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-d.clock.After(pollEvery):
		}
	}
	return false
}

// kill ends the process in the PID file, if it still is this sandbox's: process IDs are used again.
func (d daemon) kill() error {
	data, err := os.ReadFile(d.layout.PID())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read process ID: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("read process ID from %s: %q is none", d.layout.PID(), data)
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read command line of process %d: %w", pid, err)
	}
	args := strings.Split(string(cmdline), "\x00")
	if len(args) < 3 || args[1] != cmdNamespaceInit || args[2] != d.layout.Dir {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// lastWords is the end of the supervisor's log.
func (d daemon) lastWords() string {
	lines, err := lastLines(d.layout.Log("supervisor"), 15)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return "  " + strings.Join(lines, "\n  ")
}

// loopbackListener opens a port the kernel chooses and returns its address and the listening file, to be handed to the supervisor.
func loopbackListener() (address string, file *os.File, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds and returns
	if err != nil {
		return "", nil, fmt.Errorf("open a port on 127.0.0.1: %w", err)
	}
	defer l.Close()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return "", nil, fmt.Errorf("hand on the port %s: it is a %T", l.Addr(), l)
	}
	if file, err = tcp.File(); err != nil {
		return "", nil, fmt.Errorf("hand on the port %s: %w", l.Addr(), err)
	}
	return l.Addr().String(), file, nil
}
