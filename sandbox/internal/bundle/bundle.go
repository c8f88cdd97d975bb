// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
	"github.com/capstan-dev/capstan/sandbox/internal/registry"
)

// formatVersion is raised when this package makes something else from the same binaries.
const formatVersion = "1"

// Bundler makes bundles, each once, in the cache of its builder.
type Bundler struct {
	// Builder builds the programs and owns the cache.
	Builder *build.Builder
	// CertFiles are where the host may keep its certificate authorities; the first that exists goes into the images. Nil means
	// the usual places of Linux distributions.
	CertFiles []string
}

// Bundle is what a cluster needs to run one upstream component, on disk and finished.
type Bundle struct {
	// Set is the programs the bundle was made from.
	Set build.Set
	// Dir is the bundle's directory in the cache.
	Dir string
}

// Images is the store that holds the bundle's images.
func (b Bundle) Images() registry.Store {
	return registry.Store{Dir: filepath.Join(b.Dir, "images")}
}

// file returns the content of one of the bundle's files.
func (b Bundle) file(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(b.Dir, name))
	if err != nil {
		return nil, fmt.Errorf("read %s of %s %s: %w", name, b.Set.Name, b.Set.Version, err)
	}
	return text, nil
}

// ClusterAPI builds and bundles a version of Cluster API: images and manifests of the four providers, and their metadata.
// The set it comes with also has clusterctl.
func (b *Bundler) ClusterAPI(ctx context.Context, version string) (Bundle, error) {
	set, err := b.Builder.ClusterAPI(ctx, version)
	if err != nil {
		return Bundle{}, err
	}
	return b.make(ctx, set, func(dir string, base baseImage) error {
		return b.fillClusterAPI(ctx, set, dir, base)
	})
}

func (b *Bundler) fillClusterAPI(ctx context.Context, set build.Set, dir string, base baseImage) error {
	core, err := b.Builder.Source(ctx, build.ClusterAPIModule, set.Version)
	if err != nil {
		return err
	}
	test, err := b.Builder.Source(ctx, build.ClusterAPITestModule, set.Version)
	if err != nil {
		return err
	}
	images := Bundle{Dir: dir}.Images()
	for _, p := range Providers() {
		if err := addProgram(images, base, p.program(set)); err != nil {
			return err
		}
		manifest, err := p.manifest(core, test, set.Version)
		if err != nil {
			return fmt.Errorf("make manifest of %s %s: %w", p.Component, set.Version, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.Component+".yaml"), manifest, 0o644); err != nil {
			return err
		}
	}
	for to, from := range map[string]string{metadataFile: "metadata.yaml", supportFile: "docs/book/src/reference/versions.md"} {
		text, err := os.ReadFile(filepath.Join(core, from))
		if errors.Is(err, fs.ErrNotExist) && to == supportFile {
			continue // what is not published is not known
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// CertManager builds and bundles a version of cert-manager: three images and the manifest.
func (b *Bundler) CertManager(ctx context.Context, version string) (Bundle, error) {
	set, err := b.Builder.CertManager(ctx, version)
	if err != nil {
		return Bundle{}, err
	}
	return b.make(ctx, set, func(dir string, base baseImage) error {
		source, err := b.Builder.Source(ctx, build.CertManagerModule, version)
		if err != nil {
			return err
		}
		images := Bundle{Dir: dir}.Images()
		for _, p := range certManagerPrograms(set) {
			if err := addProgram(images, base, p); err != nil {
				return err
			}
		}
		manifest, err := certManagerManifest(source, version)
		if err != nil {
			return fmt.Errorf("render chart of cert-manager %s: %w", version, err)
		}
		return os.WriteFile(filepath.Join(dir, certManagerFile), manifest, 0o644)
	})
}

// TestPod builds and bundles the image TestPodImage, whose program runs, crashes or takes memory as it is told.
func (b *Bundler) TestPod(ctx context.Context) (Bundle, error) {
	set, err := b.Builder.TestPod(ctx)
	if err != nil {
		return Bundle{}, err
	}
	return b.make(ctx, set, func(dir string, base baseImage) error {
		return addProgram(Bundle{Dir: dir}.Images(), base, program{
			image: TestPodImage, binary: set.Path(build.TestPodProgram), path: "/testpod", user: nonroot,
			source: "https://github.com/capstan-dev/capstan", command: []string{"run"},
		})
	})
}

// TestPodImage is the image for tests. Its commands are run, crash and hog.
const TestPodImage = "sandbox.capstan.dev/testpod:v1"

// make makes a bundle from a set, once.
func (b *Bundler) make(ctx context.Context, set build.Set, fill func(dir string, base baseImage) error) (Bundle, error) {
	certs, err := b.certificates()
	if err != nil {
		return Bundle{}, err
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(formatVersion), []byte(set.Key), certs} {
		_, _ = fmt.Fprintf(h, "%d\n", len(part)) // a hash never fails
		_, _ = h.Write(part)
	}
	dir, err := b.Builder.Once(ctx, build.Artifact{
		Kind: "bundle", Name: set.Name, Version: set.Version, Key: hex.EncodeToString(h.Sum(nil))[:16],
	}, func(dir string) error {
		base, err := newBaseImage(certs)
		if err != nil {
			return err
		}
		return fill(dir, base)
	})
	return Bundle{Set: set, Dir: dir}, err
}

// certificates returns the host's certificate authorities, or nothing when it has none.
func (b *Bundler) certificates() ([]byte, error) {
	files := b.CertFiles
	if files == nil {
		files = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		return text, nil
	}
	return nil, nil
}
