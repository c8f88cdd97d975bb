// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// Repository describes a local repository for clusterctl.
type Repository struct {
	// ClusterAPI are the versions to offer, in any order; at least one.
	ClusterAPI []Bundle
	// CertManager is the cert-manager that clusterctl installs. Its version is also the one that "clusterctl upgrade" moves to.
	CertManager Bundle
	// Metal adds the provider of simulated bare metal.
	Metal bool
	// Variables are put into the configuration for ${NAME} in manifests; the environment goes before them.
	Variables map[string]string
}

// Write writes the repository and a clusterctl.yaml beside it, and returns the latter's path, for clusterctl's --config flag. The
// directory must be absolute, because it becomes part of the configuration; files that are there are replaced.
func (r Repository) Write(dir string) (configPath string, err error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("write clusterctl repository: %s is not an absolute path", dir)
	}
	if len(r.ClusterAPI) == 0 {
		return "", fmt.Errorf("write clusterctl repository: no version of Cluster API is given")
	}
	for _, b := range r.ClusterAPI {
		if err := writeProviders(dir, b); err != nil {
			return "", fmt.Errorf("write clusterctl repository: %w", err)
		}
	}
	manifest, err := r.CertManager.file(certManagerFile)
	if err != nil {
		return "", err
	}
	if err := writeFile(manifest, dir, certManagerName, r.CertManager.Set.Version, certManagerFile); err != nil {
		return "", fmt.Errorf("write clusterctl repository: %w", err)
	}
	settings := r.config(dir)
	if r.Metal {
		entry, err := writeMetal(dir)
		if err != nil {
			return "", fmt.Errorf("write clusterctl repository: %w", err)
		}
		settings["providers"] = append(providerEntries(dir, r.ClusterAPI), entry)
	}
	config, err := yaml.Marshal(settings)
	if err != nil {
		return "", err
	}
	configPath = filepath.Join(dir, "clusterctl.yaml")
	return configPath, os.WriteFile(configPath, config, 0o644)
}

// writeProviders writes FOLDER/VERSION/{components,metadata}.yaml for each provider.
func writeProviders(dir string, b Bundle) error {
	metadata, err := b.file(metadataFile)
	if err != nil {
		return err
	}
	for _, p := range Providers() {
		manifest, err := b.file(p.Component + ".yaml")
		if err != nil {
			return err
		}
		if err := writeFile(manifest, dir, p.Component, b.Set.Version, p.File); err != nil {
			return err
		}
		if err := writeFile(metadata, dir, p.Component, b.Set.Version, metadataFile); err != nil {
			return err
		}
	}
	return nil
}

// config is the clusterctl configuration. Its built-in list of providers points to the internet; every provider that a sandbox
// has is named here and so replaces the built-in one.
func (r Repository) config(dir string) map[string]any {
	config := map[string]any{
		"providers": providerEntries(dir, r.ClusterAPI),
		"cert-manager": map[string]string{
			"url":     "file://" + filepath.Join(dir, certManagerName, r.CertManager.Set.Version, certManagerFile),
			"version": r.CertManager.Set.Version,
		},
		// The user's own overrides have no place here.
		"overridesFolder": filepath.Join(dir, "overrides"),
	}
	for name, value := range r.Variables {
		config[name] = value
	}
	return config
}

// providerEntries names Cluster API's own providers.
func providerEntries(dir string, versions []Bundle) []map[string]string {
	// The version in the path is the default one; all others in the folder are known too.
	oldest := slices.MinFunc(versions, func(a, b Bundle) int { return semver.Compare(a.Set.Version, b.Set.Version) })
	var providers []map[string]string
	for _, p := range Providers() {
		providers = append(providers, map[string]string{
			"name": p.Name, "type": p.Type,
			"url": "file://" + filepath.Join(dir, p.Component, oldest.Set.Version, p.File),
		})
	}
	return providers
}

// ClusterctlEnv is what clusterctl needs in its environment to stay off the internet, beside --config.
func ClusterctlEnv() []string {
	return []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "GOPROXY=off"}
}

// writeFile writes a file and the directories above it.
func writeFile(text []byte, path ...string) error {
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
