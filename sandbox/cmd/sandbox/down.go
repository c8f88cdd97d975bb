// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
)

// downOptions are the options of `sandbox down`.
type downOptions struct {
	location
	streams streams
	clock   clock.Clock
}

func newDownCommand(s streams, clk clock.Clock) *cobra.Command {
	o := &downOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "down",
		Short: "End a sandbox and remove its state",
		Long: `down ends every process of a sandbox and removes its state. The logs and the audit log stay in its directory until the next
'sandbox up'. It also cleans up after a crash, and does nothing when there is nothing to do.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.addFlags(c)
	return c
}

func (o *downOptions) run(ctx context.Context) error {
	l, err := o.layout()
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.Dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(o.streams.errOut, "There is no sandbox in %s\n", l.Dir)
		return nil
	}
	d := daemon{layout: l, clock: o.clock}
	was := d.alive()
	s := newProgress(o.streams.errOut, o.clock).step("End sandbox in " + l.Dir)
	err = d.stop(ctx)
	if err == nil {
		err = l.Clean(true)
	}
	result := "nothing was running"
	if was {
		result = "nothing is left running; logs are kept in " + l.Logs()
	}
	return s.end(err, result)
}
