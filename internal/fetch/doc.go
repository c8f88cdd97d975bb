// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package fetch brings the files of a release from disk, http and OCI registries, checks that they are the ones that the
// release names, and loads a whole release: everything, or one error that says what is wrong. It holds no cluster client
// and writes nothing.
//
// What a digest is taken over:
//
//   - a file or a url: the bytes;
//   - a directory: the bytes of release.Join over its *.yaml files in byte order of their names, paths as the release
//     writes them;
//   - an OCI artifact: the manifest, as registries and tools print it, which covers all layers.
//
// What is refused before any content is trusted: paths and symbolic links that lead out of the release directory, answers
// over the size limit, redirects from https to http, and content with another digest.
package fetch
