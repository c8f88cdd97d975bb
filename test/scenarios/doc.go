// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenarios tells whole stories on the sandbox: a real API server, real controllers, the built binaries. Here is
// the main one; packages failing and kill have the others, so that each ends within the time that `go test` gives a
// package. Package cases replays single failure reports on a bare API server.
//
// The binaries are built when a test asks for them, unless CAPSTAN_SCENARIOS names the folder where they are. Where it is
// set to nothing, stories are skipped.
package scenarios
