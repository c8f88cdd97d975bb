// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenarios tells whole stories on the sandbox: a real API server, real controllers, the built binaries. Its tests
// are skipped unless CAPSTAN_SCENARIOS names the folder that holds the binaries capstan and sandbox; `make test` sets it.
package scenarios
