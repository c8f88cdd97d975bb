// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps what Capstan has to remember in the management cluster itself: its own kinds, plans, runs, the
// artifacts they refer to, and the lease that lets one process at a time drive a run. It decides nothing about runs.
//
// Artifacts are what a plan was made from and what a run will apply: rendered manifests, the fence's picture of the
// Machines. They are kept in Secrets, not ConfigMaps, because rendered manifests may hold credentials that were
// substituted into them; who may read Secrets in capstan-system may read those. An artifact is named by its content and
// never changes.
//
// Nothing is collected yet: artifacts stay after the plans and runs that refer to them are deleted. An artifact takes
// tens to hundreds of kilobytes, so a hundred platform upgrades take tens of megabytes. To remove one by hand, delete the
// Secrets with its label capstan.dev/artifact, if no Plan names its digest (spec.components[].artifact) and no Upgrade
// does (spec.fence).
//
// Every write is guarded: creation by name, changes by resource version. A lost race is ErrConflict.
package store
