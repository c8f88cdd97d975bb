// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon is the machine room of a sandbox with bare metal: it plays baremetal-operator with all hosts behind it, and the workload clusters
// that run on them.
//
// It is a process of the sandbox and not a Pod of the management cluster. So what it owns lives on while providers are swapped, and the address of a
// workload cluster never changes. Workload API servers and etcd members are those of Cluster API's in-memory provider. A machine is born from what a
// host has on its disk and nothing else: the daemon does not know the provider's version and is never called by it.
package daemon
