// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package release reads and judges releases and renders their components to the objects that are applied. It is pure:
// it reads no file, opens no connection and asks no cluster; package fetch brings it the bytes.
//
// From bytes to a bundle:
//
//	release.yaml --Decode--> Release --Validate--> Release
//	                                                  | for each component (package fetch)
//	manifests, metadata.yaml ----------Render---> Rendered
//	                                                  |
//	                                      NewBundle: Release + all Rendered + digest
//
// Variables. A component of type provider is always run through clusterctl's own template processor, as clusterctl would
// do. Values come from the component's variables alone, never from the environment: what was approved must not depend on
// the shell that applies it. A component of type manifest is run through the same processor only if it names variables,
// because plain manifests hold shell scripts and configuration in which ${NAME} means something else.
package release
