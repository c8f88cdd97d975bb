// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload makes workload clusters on Cluster API's docker provider with its in-memory backend, and waits until they are whole.
//
// It writes the objects a user would write (Cluster, KubeadmControlPlane, MachineDeployment and their templates) with server-side apply and
// does not know how the management cluster came about. No machine is made: nodes, etcd members and the API server of such a cluster are
// objects in the docker provider's memory.
package workload
