// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox runs a real Kubernetes management cluster on one Linux machine, built from source, without a container engine.
//
// This package is the command line: it reads options, shows progress and puts the packages of the sandbox together. What a sandbox is made
// of lives below internal/.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// Hidden commands: this program started again, in another role.
const (
	cmdNamespaceInit = "namespace-init" // first process of the sandbox's namespaces
	cmdSupervise     = "supervise"      // the supervisor, its only child
	cmdContainerInit = "container-init" // becomes a container's process
)

// Exit codes.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// streams are the program's input and outputs. stdout is for what was asked for, stderr for everything else.
type streams struct {
	in          *os.File
	out, errOut io.Writer
}

func main() {
	os.Exit(run(os.Args))
}

func run(args []string) int {
	if len(args) > 1 {
		switch args[1] {
		case cmdNamespaceInit:
			return netns.Main()
		case cmdContainerInit:
			return container.Main()
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the program at once.
	defer context.AfterFunc(ctx, stop)()

	root := newRoot(streams{in: os.Stdin, out: os.Stdout, errOut: os.Stderr}, clock.RealClock{})
	root.SetArgs(args[1:])
	return exitCode(root.ExecuteContext(ctx), os.Stderr)
}

// exitCode prints an error once and turns it into the exit code.
func exitCode(err error, errOut io.Writer) int {
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitStatusError](err); ok {
		return int(code)
	}
	fmt.Fprintf(errOut, "sandbox: %v\n", err)
	if h, ok := errors.AsType[*hintError](err); ok {
		fmt.Fprintf(errOut, "Next: %s\n", h.next)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errUsage):
		return exitUsage
	}
	return exitError
}
