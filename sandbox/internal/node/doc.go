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
// What it does not do, and so a sandbox is not:
//
//   - Services: there is no kube-proxy and no DNS. Pods reach the API server and
//     each other's addresses; the API server reaches webhooks with endpoint
//     routing. Of Services only that of the API server is in the environment.
//   - Isolation from someone who means harm: no seccomp, no limits of cpu or disk.
//     Memory limits are enforced by looking at resident memory twice a second, so
//     a short burst above the limit survives.
//   - Users, without root: a plain user's namespace has one id, so all containers
//     run as that (root inside, without capabilities if they asked for another).
//   - The machine's files: a hostPath volume is an empty stand-in below
//     Config.Dir. Persistent and CSI volumes are refused with an event; host
//     ports, host PID and readiness gates set after the start are ignored.
//   - Collection of images, attach, ephemeral containers, resize in place.
package node
