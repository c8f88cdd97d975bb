// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package container starts one container: a process with its own mount, PID,
// UTS and IPC namespaces in a given network namespace, with an image's files as
// its root. It knows nothing of Kubernetes, and decides nothing about restarts.
//
// The caller's binary is started again with a hidden command that ends in Main;
// that process sets the namespaces up and then becomes the container's process:
//
//	Runtime.Start -> clone -> Main: setns net, overlay, mounts, pivot_root,
//	                                drop ids and capabilities -> exec
//	Runtime.Exec  -> Main: setns of a running container -> fork, exec, wait
package container
