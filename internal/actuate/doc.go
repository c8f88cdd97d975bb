// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package actuate makes changes to a management cluster on behalf of steps, and nothing else: what to change, when, and
// whether it worked is decided elsewhere.
//
// Live writes. DryRun asks the API server what would happen, through the same code. Recorder and Faulty are for tests.
//
// Every write is one of three: server-side apply with Capstan's field owner, JSON merge patch, delete. Errors carry one
// of ErrConflict, ErrRefused and ErrRetry, so that no caller has to guess whether trying again helps.
//
// # Why not github.com/fluxcd/pkg/ssa
//
// It does most of this and does it well. It was left out because it brings kubectl, cli-runtime and kustomize into the
// module (through cli-utils, for its waiting and printing), its releases follow controller-runtime's minor versions so
// that it decides when we can move, and two things we need are not in it: yielding to repairs by hand field by field, and
// a dry run that predicts what the takeover of an installer's fields will remove. What it has beyond that (waiting,
// staging, immutable recreation) is the engine's work here.
package actuate
