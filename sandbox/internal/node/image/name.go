// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// ErrInvalidName means that an image name can't be understood.
var ErrInvalidName = errors.New("invalid image name")

// reference is an image as a Pod names it and as the registry knows it.
type reference struct {
	// full is the name with nothing left out: docker.io/library/busybox:latest.
	full string
	// repository is full without tag and digest.
	repository string
	// mirror is where the sandbox's registry has it.
	mirror name.Reference
}

// parse maps a name to the registry: the host becomes the first element of the
// path, so that one registry stands for all. An image of the registry itself is
// asked for as it is.
func parse(image, registry string) (reference, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return reference{}, fmt.Errorf("%w %q: %w", ErrInvalidName, image, err)
	}
	host := ref.Context().RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	path := host + "/" + ref.Context().RepositoryStr()
	mirrored := registry + "/" + strings.ReplaceAll(strings.ToLower(host), ":", "_") + "/" + ref.Context().RepositoryStr()
	if host == registry {
		mirrored = path
	}
	separator := ":"
	if strings.Contains(ref.Identifier(), ":") {
		separator = "@"
	}
	mirror, err := name.ParseReference(mirrored+separator+ref.Identifier(), name.Insecure)
	if err != nil {
		return reference{}, fmt.Errorf("%w %q: %w", ErrInvalidName, image, err)
	}
	return reference{full: path + separator + ref.Identifier(), repository: path, mirror: mirror}, nil
}
