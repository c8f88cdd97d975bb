// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package registry keeps container images in directories and serves them as a registry does, over the OCI distribution API.
//
// All registries of the world are mirrored by path: what a manifest calls quay.io/org/app:v1 is the repository quay.io/org/app
// here, and so http://ADDRESS/v2/quay.io/org/app/manifests/v1. Images of Docker Hub are under docker.io.
//
// A Store is one directory. A Layered puts several on top of each other: at the bottom images that are shared and never
// written to, on top one that belongs to a sandbox and takes pushes, new tags and the marks of removed ones. A Layered can be
// changed while it is served, by the same process or another: every request looks at the directories again.
//
// The package is no registry for the world: it has no authentication, no TLS, no uploads in several requests at once for one
// blob, and it never collects garbage.
package registry
