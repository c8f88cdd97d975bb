// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides, from the managedFields of an object, whose fields are whose: which of the wanted fields
// yield to a repair that a person made by hand, and which fields an installer left behind that the new manifest has not.
// It is pure. The takeover itself is a write, so package actuate makes it; the observer uses the same decisions for its
// dry run, so that "in sync" and "would be applied" never differ.
//
// Paths are resolved in the objects themselves and need no schema: list entries are found by the key that managedFields
// carries. What can't be seen is a field that a person removed: removal leaves no owner behind, so a removed field that
// the manifest has comes back.
package ownership
