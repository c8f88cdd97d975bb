// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage knows what is wrong with stored objects when versions of their kinds go away, and what they look like
// once it is repaired: versions in status.storedVersions, entries of managedFields, references to owners. It reads and
// writes nothing in a cluster.
package storage
