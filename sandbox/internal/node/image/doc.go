// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package image fetches images from the sandbox's one registry and unpacks them
// into directories, once for each digest. It does not build or push images, does
// not collect garbage, and does not decide when an image is pulled.
package image
