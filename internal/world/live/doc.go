// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package live fills the world from a running management cluster, and calls the API servers of its workload clusters.
// It only reads: the sole requests with a writing verb are dry runs. It judges nothing beyond what an object's own kind
// says about its health, and it changes nothing.
package live
