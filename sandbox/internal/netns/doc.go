// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package netns makes the one place a sandbox lives in (a user, network, mount
// and PID namespace, needing no root where the kernel allows user namespaces)
// and, in it, a network namespace with an address for each Pod.
//
//	machine
//	  `- Start ------> Main, PID 1: mounts, loopback, bridge; reaps; forwards signals
//	                    `- Options.Argv, PID 2: the supervisor of the sandbox
//	                        `- everything else
//
// When PID 1 ends, for whatever reason, the kernel ends all the rest. The package
// knows nothing of Kubernetes and does not give the sandbox a way to the outside
// world: a listener opened before Start and passed on is the way in.
package netns
