// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package supervisor keeps one sandbox alive: it is the first process inside the sandbox's namespaces, starts the control plane as child
// processes, runs the registry and the node agent in its own process, and answers the command line over a Unix socket.
//
//	outside                         │ user, mount, PID and network namespace
//	                                │
//	sandbox status ── control.sock ─┼─> supervisor (PID 1) ─┬─ etcd, kube-apiserver, kube-controller-manager, kube-scheduler
//	kubectl ─── 127.0.0.1:PORT ─────┼─> CONNECT proxy ──────┼─> 10.244.0.1:6443, Pod IPs
//	crane ───── 127.0.0.1:PORT ─────┼─> registry            └─ node agent ── Pods
//
// Everything dies with the supervisor, because it is the first process of the PID namespace; so a crash leaves nothing behind.
//
// The package does not build anything, does not know Cluster API, and reaches the node agent and the registry through small interfaces.
package supervisor
