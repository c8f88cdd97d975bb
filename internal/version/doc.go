// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package version holds the rules for versions: semantic versions, ranges of them, and the Cluster API contract that a
// provider's version implements. It knows no cluster and no file; it compares what it is given.
package version
