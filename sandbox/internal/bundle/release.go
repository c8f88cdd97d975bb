// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// Release describes a Capstan release to be written as a directory.
type Release struct {
	// Name is the release's name; empty means capi- and the version of Cluster API.
	Name string
	// ClusterAPI and CertManager are what the release consists of.
	ClusterAPI  Bundle
	CertManager Bundle
	// Metal is a version of the provider of simulated bare metal, which then takes the place of the docker provider.
	Metal string
	// UpgradeFrom are versions of releases this one can be reached from. Empty means any.
	UpgradeFrom []string
	// Variables are what ${NAME} stands for in provider manifests, where it is not to be the manifest's own default. They
	// should be those that clusterctl had when it installed the providers.
	Variables map[string]string
}

// The types below are Capstan's Release as YAML. They are written here once more, because the sandbox is a module of its own and
// must not depend on the product it serves to test.
type (
	releaseFile struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Spec       releaseSpec       `yaml:"spec"`
	}
	releaseSpec struct {
		Version     string           `yaml:"version"`
		UpgradeFrom []string         `yaml:"upgradeFrom,omitempty"`
		Kubernetes  map[string]*span `yaml:"kubernetes,omitempty"`
		Components  []component      `yaml:"components"`
	}
	component struct {
		Name      string            `yaml:"name"`
		Type      string            `yaml:"type"`
		Provider  *identity         `yaml:"provider,omitempty"`
		Version   string            `yaml:"version"`
		Source    source            `yaml:"source"`
		Metadata  *source           `yaml:"metadata,omitempty"`
		Needs     []string          `yaml:"needs,omitempty"`
		Variables map[string]string `yaml:"variables,omitempty"`
	}
	identity struct {
		Name      string `yaml:"name"`
		Type      string `yaml:"type"`
		Namespace string `yaml:"namespace"`
	}
	source struct {
		Path   string `yaml:"path"`
		Digest string `yaml:"digest"`
	}
	span struct {
		Min string `yaml:"min,omitempty"`
		Max string `yaml:"max,omitempty"`
	}
)

// Write writes release.yaml and the files it points at into a directory, and returns the path of release.yaml.
func (r Release) Write(dir string) (string, error) {
	version := r.ClusterAPI.Set.Version
	name := r.Name
	if name == "" {
		name = "capi-" + version
	}
	components, err := r.components(dir)
	if err != nil {
		return "", fmt.Errorf("write release %s: %w", name, err)
	}
	ranges, err := kubernetesRanges(r.ClusterAPI)
	if err != nil {
		return "", fmt.Errorf("write release %s: %w", name, err)
	}
	text, err := encode(releaseFile{
		APIVersion: "capstan.dev/v1alpha1", Kind: "Release", Metadata: map[string]string{"name": name},
		Spec: releaseSpec{Version: version, Components: components, Kubernetes: ranges, UpgradeFrom: r.UpgradeFrom},
	})
	if err != nil {
		return "", fmt.Errorf("write release %s: %w", name, err)
	}
	file := filepath.Join(dir, "release.yaml")
	return file, writeFile(text, file)
}

func (r Release) components(dir string) ([]component, error) {
	manifest, err := r.CertManager.file(certManagerFile)
	if err != nil {
		return nil, err
	}
	from, err := writeSource(dir, certManagerFile, manifest)
	if err != nil {
		return nil, err
	}
	all := []component{{Name: certManagerName, Type: "manifest", Version: r.CertManager.Set.Version, Source: from}}
	metadata, err := r.ClusterAPI.file(metadataFile)
	if err != nil {
		return nil, err
	}
	for _, p := range Providers() {
		if r.Metal != "" && p.Type == metalType {
			continue
		}
		c, err := r.provider(dir, p, metadata)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if r.Metal == "" {
		return all, nil
	}
	c, err := metalProvider(dir, r.Metal)
	return append(all, c), err
}

func (r Release) provider(dir string, p Provider, metadata []byte) (component, error) {
	manifest, err := r.ClusterAPI.file(p.Component + ".yaml")
	if err != nil {
		return component{}, err
	}
	from, err := writeSource(dir, p.Component+".yaml", manifest)
	if err != nil {
		return component{}, err
	}
	contracts, err := writeSource(dir, p.Component+"-metadata.yaml", metadata)
	if err != nil {
		return component{}, err
	}
	return component{
		Name: p.Component, Type: "provider", Version: r.ClusterAPI.Set.Version,
		Provider: &identity{Name: p.Name, Type: p.Type, Namespace: p.Namespace},
		Source:   from, Metadata: &contracts, Needs: p.needs, Variables: r.Variables,
	}, nil
}

// writeSource writes a file of the release and returns what points at it.
func writeSource(dir, name string, text []byte) (source, error) {
	rel := path.Join("components", name)
	err := writeFile(text, dir, filepath.FromSlash(rel))
	return source{Path: rel, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(text))}, err
}

// encode writes YAML with the fields in the order of the types, which is the order people read them in.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(v), e.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// kubernetesRanges reads what upstream says it supports. It is nothing when upstream says nothing.
func kubernetesRanges(b Bundle) (map[string]*span, error) {
	text, err := os.ReadFile(filepath.Join(b.Dir, supportFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseSupport(string(text), b.Set.Version), nil
}
