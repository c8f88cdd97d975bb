// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundle turns what package build made into what a cluster eats: container images under the names that upstream
// manifests use, the manifests themselves as an upstream release publishes them, a local repository and configuration for
// clusterctl, and Capstan release directories.
//
// Images hold one static program and the few files that distroless bases have. Their layers are plain tar without compression,
// as they never leave the machine, and their times are fixed, so that the same program gives the same digest.
//
// Provider manifests come out of kustomize run on the module's config/default with the two edits that upstream's release does:
// the image and its pull policy. ${VARIABLES} stay for clusterctl to fill in. cert-manager's manifest comes out of its chart with
// the values upstream renders its static manifest with.
//
// The package does not talk to a cluster and does not serve images (see package registry).
package bundle
