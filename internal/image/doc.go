// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package image reads disk images of nodes and says what is in them: size, format, digests, partitions, operating system,
// kernels, versions of the container runtime and of Kubernetes, packages and kernel modules. It reads the image itself and
// believes no notes about it. It knows no cluster, mounts nothing, starts no program and writes nothing but temporary files.
//
// Images come from anywhere, so every number in them is taken for a lie until it is checked: nothing is allocated by a size
// that an image names, every walk has a limit, and what can't be read is named in the report or is a fault.
package image
