// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases replays public failure reports on Capstan's command line, each by the ID that docs/cases.md gives it.
// There is a real API server with an audit log; what controllers would do is written into it by the test, so the cases
// are exact. Stories that need real controllers are told in package scenarios.
package cases
