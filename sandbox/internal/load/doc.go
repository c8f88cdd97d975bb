// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package load makes a management cluster look big: extra CRDs with a few objects each, and Clusters with their control
// planes, MachineDeployments, MachineSets and Machines, written straight into the API server with the status that
// controllers would have given them.
//
// The content depends on nothing but the size that is asked for: no clock, no chance, so that two loads are alike and a
// second one finds nothing to do. Clusters are paused, or the controllers would look for machines that do not exist.
// The package removes nothing.
package load
