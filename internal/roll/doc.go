// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package roll decides how a node image gets on the Machines of a fleet: which fields of a machine template carry it, what
// the new template is, which hosts are to be had, and whether the new Machine or the old one goes first. Everything is
// decided on plain data. It reads nothing and writes nothing, and the steps that do it are elsewhere.
package roll
