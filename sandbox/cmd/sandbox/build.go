// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
)

func newBuildCommand(s streams, clk clock.WithTicker) *cobra.Command {
	return &cobra.Command{Use: "build"}
}

func newReleaseCommand(s streams, clk clock.WithTicker) *cobra.Command {
	return &cobra.Command{Use: "release"}
}

func describeBuild(e build.Event) string {
	text := string(e.Stage)
	if e.Total > 0 {
		text += fmt.Sprintf(" %d/%d", e.Done, e.Total)
	}
	return text + " " + e.Detail
}
