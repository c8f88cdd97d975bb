// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Layered is a registry made of read-only stores with a writable one on top.
type Layered struct {
	// Upper takes all writes. What it says about a tag goes before what the stores below say.
	Upper Store
	// Lower are looked at in order after it and are never written to.
	Lower []Store
}

// Image is one tag of a registry.
type Image struct {
	// Name is the image as a Pod would name it, as registry.k8s.io/cluster-api/cluster-api-controller:v1.13.4.
	Name string
	// Digest is what the tag points at.
	Digest v1.Hash
	// Local tells that the tag was put into the writable store, and is not one of the shared ones.
	Local bool
}

// stores are all stores from top to bottom.
func (l *Layered) stores() []Store {
	return append([]Store{l.Upper}, l.Lower...)
}

// Images lists all tags, sorted by name.
func (l *Layered) Images() ([]Image, error) {
	seen := map[string]bool{}
	var images []Image
	for i, s := range l.stores() {
		repos, err := s.tags()
		if err != nil {
			return nil, fmt.Errorf("list tags in %s: %w", s.Dir, err)
		}
		for repo, tags := range repos {
			for tag, value := range tags {
				full := repo + ":" + tag
				if seen[full] {
					continue
				}
				seen[full] = true
				if value == removed {
					continue
				}
				digest, err := v1.NewHash(value)
				if err != nil {
					return nil, fmt.Errorf("read tag %s in %s: %w", full, s.Dir, err)
				}
				images = append(images, Image{Name: full, Digest: digest, Local: i == 0})
			}
		}
	}
	slices.SortFunc(images, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	return images, nil
}

// Resolve returns the digest of an image, named by tag or digest.
func (l *Layered) Resolve(image string) (v1.Hash, error) {
	repo, ref, err := locate(image)
	if err != nil {
		return v1.Hash{}, err
	}
	return l.resolve(repo, ref)
}

func (l *Layered) resolve(repo, ref string) (v1.Hash, error) {
	if strings.Contains(ref, ":") {
		digest, err := v1.NewHash(ref)
		if err != nil {
			return v1.Hash{}, err
		}
		f, _, err := l.open(digest)
		if err != nil {
			return v1.Hash{}, err
		}
		return digest, f.Close()
	}
	for _, s := range l.stores() {
		value, err := s.readTag(repo, ref)
		if errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return v1.Hash{}, err
		}
		if value == removed {
			break
		}
		return v1.NewHash(value)
	}
	return v1.Hash{}, fmt.Errorf("image %s:%s: %w", repo, ref, errNotFound)
}

// Tag makes a new name for an image that is there. The new name may exist, and then points elsewhere from now on.
func (l *Layered) Tag(image, newName string) error {
	digest, err := l.Resolve(image)
	if err != nil {
		return fmt.Errorf("tag %s as %s: %w", image, newName, err)
	}
	repo, tag, err := locate(newName)
	if err != nil {
		return err
	}
	if strings.Contains(tag, ":") {
		return fmt.Errorf("tag %s as %s: the new name must end in a tag, not a digest", image, newName)
	}
	return l.Upper.writeTag(repo, tag, digest.String())
}

// Remove removes a tag. Shared stores are left alone: the tag is hidden from this registry only, and Tag brings it back.
func (l *Layered) Remove(image string) error {
	if _, err := l.Resolve(image); err != nil {
		return fmt.Errorf("remove %s: %w", image, err)
	}
	repo, tag, err := locate(image)
	if err != nil {
		return err
	}
	if strings.Contains(tag, ":") {
		return fmt.Errorf("remove %s: name a tag, not a digest", image)
	}
	return l.Upper.writeTag(repo, tag, removed)
}

// Restore takes back what Tag and Remove did to a name: what the shared stores say about it counts again.
func (l *Layered) Restore(image string) error {
	repo, tag, err := locate(image)
	if err != nil {
		return err
	}
	err = os.Remove(l.Upper.tagPath(repo, tag))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Add writes an image under a name into the writable store.
func (l *Layered) Add(image string, img v1.Image) error {
	return l.Upper.Add(image, img)
}

// open opens a blob in the first store that has it.
func (l *Layered) open(digest v1.Hash) (*os.File, int64, error) {
	for _, s := range l.stores() {
		f, size, err := s.openBlob(digest)
		if errors.Is(err, errNotFound) {
			continue
		}
		return f, size, err
	}
	return nil, 0, fmt.Errorf("blob %s: %w", digest, errNotFound)
}

// Add writes an image under a name.
func (s Store) Add(image string, img v1.Image) error {
	repo, tag, err := locate(image)
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("read layers of %s: %w", image, err)
	}
	for _, layer := range layers {
		if err := s.addLayer(layer); err != nil {
			return fmt.Errorf("write layer of %s: %w", image, err)
		}
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return fmt.Errorf("read configuration of %s: %w", image, err)
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return fmt.Errorf("read manifest of %s: %w", image, err)
	}
	if _, err := s.writeBlob(strings.NewReader(string(config)), nil); err != nil {
		return fmt.Errorf("write configuration of %s: %w", image, err)
	}
	digest, err := s.writeBlob(strings.NewReader(string(manifest)), nil)
	if err != nil {
		return fmt.Errorf("write manifest of %s: %w", image, err)
	}
	return s.writeTag(repo, tag, digest.String())
}

func (s Store) addLayer(layer v1.Layer) (err error) {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	// The base layer is the same in all images.
	if f, _, err := s.openBlob(digest); err == nil {
		return f.Close()
	}
	var content io.ReadCloser
	if content, err = layer.Compressed(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	_, err = s.writeBlob(content, &digest)
	return err
}

// locate splits an image's name into the repository, with the registry's host as its first element, and the tag or digest.
func locate(image string) (repo, ref string, err error) {
	parsed, err := name.ParseReference(image)
	if err != nil {
		return "", "", fmt.Errorf("read image name %q: %w", image, err)
	}
	host := parsed.Context().RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io" // its API has another host name than its images
	}
	// A colon has no place in a repository.
	host = strings.ReplaceAll(strings.ToLower(host), ":", "_")
	return host + "/" + parsed.Context().RepositoryStr(), parsed.Identifier(), nil
}
