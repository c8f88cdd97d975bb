// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package node is the node side of a sandbox: an agent that registers a Node
// with a real API server and runs the Pods bound to it as isolated processes.
//
//	API server <-> virtual-kubelet controllers <-> provider -> pod workers
//	                                                             |
//	          image (pull, unpack)   volume (content, mounts)    |
//	                     \                |                      v
//	                      +-----------> container (namespaces, exec)
//
// It must run inside the namespaces that package netns makes; all Pods die
// with them. It does what a kubelet and a container engine do for a manager
// process: images, volumes, tokens, probes, restarts, logs, events, status.
//
// It does not: programme Services (no kube-proxy: Pods reach the API server
// and each other's addresses, not cluster IPs), enforce cpu limits, attach
// persistent volumes, or give a Pod the machine's own files: a hostPath volume
// is an empty stand-in below Config.Dir. Memory limits are enforced by watching
// resident memory, so a short burst above the limit may survive.
package node
