// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the generated CustomResourceDefinitions of Capstan's own kinds. It installs nothing.
package crd

import "embed"

// FS holds one YAML file for each kind.
//
//go:embed *.yaml
var FS embed.FS
