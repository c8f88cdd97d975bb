// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Image is an unpacked image.
type Image struct {
	// Name is the full name it was asked for by.
	Name string
	// ID is its repository and digest.
	ID string
	// Root is the directory with its files; they must not be changed.
	Root string
	// Config says what to execute, as whom and where.
	Config v1.Config
	// Size is what its layers weigh in the registry.
	Size int64
}

// Options are for NewStore.
type Options struct {
	// Registry is the host:port of the registry, which speaks plain HTTP.
	Registry string
	// Dir keeps the images; several stores may share it.
	Dir string
	// Temp is where images are unpacked first: on the same file system, empty,
	// and of this store alone.
	Temp string
}

// Store pulls and keeps images. Which digest a name stands for is remembered
// until the process ends only; the files are kept.
type Store struct {
	o         Options
	transport http.RoundTripper

	mu    sync.Mutex
	names map[string]*Image
	locks map[string]*sync.Mutex // by digest
}

// NewStore returns a store. It does not call the registry.
func NewStore(o Options) (*Store, error) {
	for _, dir := range []string{o.Dir, o.Temp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make image directory: %w", err)
		}
	}
	// No proxy: the registry is never further away than this machine.
	direct := &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second}
	return &Store{o: o, transport: direct, names: map[string]*Image{}, locks: map[string]*sync.Mutex{}}, nil
}

// Present returns the image if it was pulled before, and nil otherwise.
func (s *Store) Present(image string) (*Image, error) {
	ref, err := parse(image, s.o.Registry)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[ref.full], nil
}

// Pull asks the registry what the name stands for now, and fetches what is not
// there yet.
func (s *Store) Pull(ctx context.Context, image string) (*Image, error) {
	ref, err := parse(image, s.o.Registry)
	if err != nil {
		return nil, err
	}
	img, err := s.pull(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("failed to pull image %q from the sandbox's registry (%s): %w", ref.full, ref.mirror, explain(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[ref.full] = img
	return img, nil
}

func (s *Store) pull(ctx context.Context, ref reference) (*Image, error) {
	desc, err := remote.Get(ref.mirror,
		remote.WithContext(ctx),
		remote.WithTransport(s.transport),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
		// The caller has a back-off of its own.
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	)
	if err != nil {
		return nil, err
	}
	remoteImage, err := desc.Image()
	if err != nil {
		return nil, err
	}
	digest, err := remoteImage.Digest()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.o.Dir, strings.ReplaceAll(digest.String(), ":", "-"))

	lock := s.lockFor(digest.String())
	lock.Lock()
	defer lock.Unlock()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := s.unpackTo(ctx, remoteImage, dir); err != nil {
			return nil, err
		}
	}
	img, err := load(dir)
	if err != nil {
		return nil, err
	}
	img.Name, img.ID = ref.full, ref.repository+"@"+desc.Digest.String()
	return img, nil
}

func (s *Store) lockFor(digest string) *sync.Mutex {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[digest] == nil {
		s.locks[digest] = &sync.Mutex{}
	}
	return s.locks[digest]
}

// meta is the file beside an unpacked image.
type meta struct {
	Config v1.Config `json:"config"`
	Size   int64     `json:"size"`
}

const (
	rootName = "rootfs"
	metaName = "image.json"
)

// unpackTo makes dir in one step, so that it is whole or not there.
func (s *Store) unpackTo(ctx context.Context, image v1.Image, dir string) error {
	temp, err := os.MkdirTemp(s.o.Temp, "unpack-")
	if err != nil {
		return fmt.Errorf("make directory to unpack to: %w", err)
	}
	defer os.RemoveAll(temp)
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	root := filepath.Join(temp, rootName)
	if err := os.Mkdir(root, 0o755); err != nil {
		return fmt.Errorf("make root: %w", err)
	}
	m := meta{Config: config.Config}
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return err
		}
		m.Size += size
		if err := unpackLayer(ctx, layer, root); err != nil {
			return err
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode image config: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temp, metaName), data, 0o644); err != nil { //nolint:gosec // no secret
		return fmt.Errorf("write image config: %w", err)
	}
	if err := os.Chmod(temp, 0o755); err != nil { //nolint:gosec // containers of any user read it
		return fmt.Errorf("open image directory: %w", err)
	}
	err = os.Rename(temp, dir)
	if errors.Is(err, fs.ErrExist) { // another agent was quicker
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep image: %w", err)
	}
	return nil
}

func load(dir string) (*Image, error) {
	data, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		return nil, fmt.Errorf("read image config: %w", err)
	}
	var m meta
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("read image config %s: %w", dir, err)
	}
	return &Image{Root: filepath.Join(dir, rootName), Config: m.Config, Size: m.Size}, nil
}

// explain says in one line what the registry answered.
func explain(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return err
	}
	text := http.StatusText(answer.StatusCode)
	if len(answer.Errors) > 0 {
		first := answer.Errors[0]
		text = string(first.Code)
		if first.Message != "" {
			text += ": " + first.Message
		}
	}
	if answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("not found: the registry answered %d %s", answer.StatusCode, text)
	}
	return fmt.Errorf("the registry answered %d %s", answer.StatusCode, text)
}
