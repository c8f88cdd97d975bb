// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// exitSetup is the exit code when the namespaces could not be set up.
const exitSetup = 125

// Main is PID 1 of the sandbox: the hidden command named in Options.Init must
// call it and exit with what it returns. It prepares the namespaces, starts the
// program, passes signals on, reaps every orphan, and returns the program's
// exit code; the kernel then ends whatever is still running.
func Main() int {
	spec, err := readSpec()
	if err == nil {
		err = setUp(spec)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: set up namespaces: %v\n", err)
		return exitSetup
	}
	code, err := runChild(spec)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		return exitSetup
	}
	return code
}

func readSpec() (initSpec, error) {
	var spec initSpec
	if os.Getpid() != 1 {
		return spec, errors.New("not the first process of a PID namespace: this command is internal")
	}
	if err := json.Unmarshal([]byte(os.Getenv(envSpec)), &spec); err != nil {
		return spec, fmt.Errorf("read %s: %w", envSpec, err)
	}
	return spec, os.Unsetenv(envSpec)
}

func setUp(spec initSpec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc (inside a container engine, /proc must not be masked): %w", err)
	}
	if spec.Hostname != "" {
		if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
	}
	return setUpLinks(spec)
}

func setUpLinks(spec initSpec) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: BridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{
		IP:   spec.Bridge.Addr().AsSlice(),
		Mask: net.CIDRMask(spec.Bridge.Bits(), spec.Bridge.Addr().BitLen()),
	}}
	if err := netlink.AddrAdd(bridge, addr); err != nil {
		return fmt.Errorf("set bridge address: %w", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("bring bridge up: %w", err)
	}
	return nil
}

// runChild starts the program and reaps until it has ended.
func runChild(spec initSpec) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	lost := watchLeash(spec)

	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return 0, err
	}
	files := []uintptr{0, 1, 2}
	for i := range spec.ExtraFiles {
		files = append(files, uintptr(3+i))
	}
	pid, err := syscall.ForkExec(path, spec.Argv, &syscall.ProcAttr{Env: os.Environ(), Files: files})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}

	ended := make(chan int, 1)
	go func() { ended <- reapUntil(pid) }()
	for {
		select {
		case code := <-ended:
			return code, nil
		case <-lost:
			return exitSetup, errors.New("the process that started the sandbox is gone")
		case s := <-signals:
			// The child may be gone already; then its exit code is next.
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(pid, number)
			}
		}
	}
}

// watchLeash returns a channel that closes when the parent is gone.
func watchLeash(spec initSpec) <-chan struct{} {
	lost := make(chan struct{})
	if !spec.Leash {
		return lost
	}
	fd := uintptr(3 + spec.ExtraFiles)
	syscall.CloseOnExec(int(fd))
	go func() {
		defer close(lost)
		// The result does not matter: nothing is ever written.
		_, _ = os.NewFile(fd, "leash").Read(make([]byte, 1))
	}()
	return lost
}

// reapUntil waits for all children and orphans; it returns when pid has ended.
func reapUntil(pid int) int {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return exitSetup
		}
		if got != pid {
			continue
		}
		if status.Signaled() {
			return 128 + int(status.Signal())
		}
		return status.ExitStatus()
	}
}
