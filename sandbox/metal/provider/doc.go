// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider is the infrastructure provider of a sandbox with bare metal: Metal3Cluster, Metal3Machine and Metal3MachineTemplate over
// BareMetalHosts, with the group, kinds, fields, labels and conditions of cluster-api-provider-metal3, and its silences.
//
// Its two generations differ where the real ones do: in whose template says that hosts are to be used again. What is left out: webhooks, conversion,
// metadata and network data templates, remediation and fast track. It knows hosts by their objects only; see package daemon for the other side.
package provider
