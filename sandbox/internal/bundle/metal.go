// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"path/filepath"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/metal"
)

// Identity of the provider of simulated bare metal.
const (
	metalComponent = "infrastructure-metal3"
	metalName      = "metal3"
	metalType      = "InfrastructureProvider"
	metalNamespace = "capm3-system"
	metalFile      = "infrastructure-components.yaml"
)

// Metal builds and bundles simulated bare metal: an image of each version of the provider. They hold the same program, which takes its version from the
// image's environment.
func (b *Bundler) Metal(ctx context.Context) (Bundle, error) {
	set, err := b.Builder.Metal(ctx)
	if err != nil {
		return Bundle{}, err
	}
	return b.make(ctx, set, func(dir string, base baseImage) error {
		for _, version := range metal.Versions() {
			if err := addProgram(Bundle{Dir: dir}.Images(), base, program{
				image: metal.Image + ":" + version, binary: set.Path(build.MetalProgram), path: "/manager", user: nonroot,
				source: "https://github.com/capstan-dev/capstan", command: []string{"manager"}, env: []string{"CAPM3_VERSION=" + version},
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeMetal writes the provider's versions into a clusterctl repository, and returns its entry in the configuration.
func writeMetal(dir string) (map[string]string, error) {
	metadata, err := metal.Metadata()
	if err != nil {
		return nil, err
	}
	for _, version := range metal.Versions() {
		manifest, err := metal.ProviderManifest(version)
		if err != nil {
			return nil, err
		}
		if err := writeFile(manifest, dir, metalComponent, version, metalFile); err != nil {
			return nil, err
		}
		if err := writeFile(metadata, dir, metalComponent, version, metadataFile); err != nil {
			return nil, err
		}
	}
	return map[string]string{
		"name": metalName, "type": metalType, "url": "file://" + filepath.Join(dir, metalComponent, metal.DefaultVersion, metalFile),
	}, nil
}

// metalProvider is the provider as a component of a release.
func metalProvider(dir, version string) (component, error) {
	manifest, err := metal.ProviderManifest(version)
	if err != nil {
		return component{}, err
	}
	from, err := writeSource(dir, metalComponent+".yaml", manifest)
	if err != nil {
		return component{}, err
	}
	metadata, err := metal.Metadata()
	if err != nil {
		return component{}, err
	}
	contracts, err := writeSource(dir, metalComponent+"-metadata.yaml", metadata)
	if err != nil {
		return component{}, err
	}
	return component{
		Name: metalComponent, Type: "provider", Version: version, Source: from, Metadata: &contracts,
		Provider: &identity{Name: metalName, Type: metalType, Namespace: metalNamespace}, Needs: []string{certManagerName, "cluster-api"},
	}, nil
}
