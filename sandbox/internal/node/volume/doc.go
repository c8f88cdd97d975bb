// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume says what the files of Secret, ConfigMap, projected and
// downward API volumes contain, and writes them so that a reader sees the old
// or the new files, never a mixture. It does not fetch objects, ask for tokens
// or mount anything.
package volume
