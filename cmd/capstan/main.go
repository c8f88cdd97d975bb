// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Command capstan upgrades the platform of a Cluster API management cluster. It only wires: streams, signals, exit code.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/internal/cli"
)

func main() {
	// Libraries would write to standard error in the midst of the progress; what matters of it comes back as an error.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	// A run matters more than who reads its output.
	signal.Ignore(syscall.SIGPIPE)
	// The first signal asks to stop; then the default holds again, so the second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	exit := cli.Run(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:])
	os.Exit(int(exit))
}
