// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package metal is simulated bare metal as a sandbox carries it along: the sources of its program, and the manifests of its provider's versions and of
// BareMetalHosts. It builds and runs nothing (see packages build and bundle), and imports nothing of what it carries.
//
// Below it are package host, the state machine of a host; package daemon, which owns hosts and workload clusters; and package provider, which takes
// hosts for machines the way cluster-api-provider-metal3 does.
package metal

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed host daemon provider cmd
var sources embed.FS

//go:embed data
var data embed.FS

// Module is the import path that the sources are written for, and Program the main package below it.
const (
	Module  = "github.com/capstan-dev/capstan/sandbox/metal"
	Program = "./cmd/metal"
)

// The provider's versions, one of each generation.
const (
	// DefaultVersion is the one a sandbox starts with: node reuse is read off the old template.
	DefaultVersion = "v1.12.4"
	// NextVersion is the one it is upgraded to: node reuse is read off the new one.
	NextVersion = "v1.13.2"
)

// Image is the name of the provider's image, without a tag.
const Image = "quay.io/metal3-io/cluster-api-provider-metal3"

// Versions are the provider's versions, oldest first.
func Versions() []string { return []string{DefaultVersion, NextVersion} }

// Sources are the program's files, by their path in the module; tests are left out.
func Sources() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := sources.ReadFile(name)
		files[name] = text
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	return files, nil
}

// ProviderManifest is the provider's infrastructure-components.yaml at a version.
func ProviderManifest(version string) ([]byte, error) {
	kinds, err := documents("data/provider")
	if err != nil {
		return nil, err
	}
	manager, err := data.ReadFile("data/manager.yaml")
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	manager = bytes.ReplaceAll(manager, []byte("image: IMAGE"), []byte("image: "+Image+":"+version))
	return append(kinds, manager...), nil
}

// Metadata is the provider's metadata.yaml: which contract its versions keep.
func Metadata() ([]byte, error) {
	text, err := data.ReadFile("data/metadata.yaml")
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	return text, nil
}

// HostKinds are the kinds of baremetal-operator that a sandbox has.
func HostKinds() ([]byte, error) { return documents("data/hosts") }

// documents joins the files of a folder to one YAML stream, each document ended.
func documents(folder string) ([]byte, error) {
	entries, err := data.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var out bytes.Buffer
	for _, e := range entries {
		text, err := data.ReadFile(path.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		out.Write(text)
		out.WriteString("---\n")
	}
	return out.Bytes(), nil
}
