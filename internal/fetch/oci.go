// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// titleAnnotation is where artifact tools note the file name of a layer.
const titleAnnotation = "org.opencontainers.image.title"

// retries are short: a person waits, and the command can be given again.
func retries() remote.Backoff {
	return remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}
}

// pullStream returns the YAML of an artifact: its only file as it is, or all its *.yaml files joined.
func (f *Fetcher) pullStream(ctx context.Context, src v1alpha1.Source) ([]byte, error) {
	files, err := f.pull(ctx, src)
	if err != nil {
		return nil, err
	}
	if len(files) == 1 {
		for _, data := range files {
			return data, nil
		}
	}
	var names []string
	var contents [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" {
			names, contents = append(names, name), append(contents, files[name])
		}
	}
	if len(names) == 0 {
		return nil, problem.Usage(ReasonBadArtifact, "", "%s has no *.yaml file", src.OCI)
	}
	return release.Join(names, contents), nil
}

// pull returns the files of an artifact whose manifest has the wanted digest.
func (f *Fetcher) pull(parent context.Context, src v1alpha1.Source) (map[string][]byte, error) {
	ref, err := release.ParseOCI(src.OCI)
	if err != nil {
		return nil, problem.Usage(release.ReasonBadSource, "", "%v", err).WithCause(err)
	}
	ctx, cancel := context.WithTimeout(parent, f.timeout())
	defer cancel()
	descriptor, err := remote.Get(ref, f.remoteOptions(ctx)...)
	if err != nil {
		return nil, f.unreachable(parent, src.OCI, err)
	}
	if err := checkDigest(src, descriptor.Digest.String()); err != nil {
		return nil, err
	}
	image, err := descriptor.Image()
	if err != nil {
		return nil, f.unreachable(parent, src.OCI, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, f.unreachable(parent, src.OCI, err)
	}
	u := unpacker{source: src.OCI, left: f.maxBytes(), limit: f.maxBytes(), files: map[string][]byte{}}
	for i, layer := range manifest.Layers {
		if err := u.layer(image, i, layer); err != nil {
			if _, ok := errors.AsType[*problem.Error](err); ok {
				return nil, err
			}
			return nil, f.unreachable(parent, src.OCI, err)
		}
	}
	if len(u.files) == 0 {
		return nil, problem.Usage(ReasonBadArtifact, "", "%s holds no file", src.OCI)
	}
	return u.files, nil
}

func (f *Fetcher) remoteOptions(ctx context.Context) []remote.Option {
	keychain := f.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain), remote.WithUserAgent("capstan"), remote.WithRetryBackoff(retries()),
	}
	if f.HTTP != nil && f.HTTP.Transport != nil {
		options = append(options, remote.WithTransport(f.HTTP.Transport))
	}
	return options
}

// registryAnswer puts the error of a registry in the user's words.
func registryAnswer(answer *transport.Error) string {
	has := func(code transport.ErrorCode) bool {
		return slices.ContainsFunc(answer.Errors, func(d transport.Diagnostic) bool { return d.Code == code })
	}
	switch {
	case has(transport.ManifestUnknownErrorCode):
		return "the registry has no such tag or digest"
	case has(transport.NameUnknownErrorCode):
		return "the registry has no such repository"
	case answer.StatusCode == http.StatusTooManyRequests:
		return "the registry answers 429 Too Many Requests: it allows no more for now"
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return "the registry refuses access, log in to it first, for example with \"docker login\""
	}
	return answer.Error()
}

// unpacker collects the files of an artifact's layers.
type unpacker struct {
	source      string
	left, limit int64
	files       map[string][]byte
}

// layer takes one layer: a tar archive, or a file whose name is in the title annotation.
func (u *unpacker) layer(image v1.Image, index int, descriptor v1.Descriptor) error {
	layer, err := image.LayerByDigest(descriptor.Digest)
	if err != nil {
		return err
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // Only reads were made.
	data, err := io.ReadAll(io.LimitReader(content, u.left+1))
	if err != nil {
		return err
	}
	if u.left -= int64(len(data)); u.left < 0 {
		return tooLarge(u.source, u.limit)
	}
	if isTar(data) {
		return u.archive(data)
	}
	name := descriptor.Annotations[titleAnnotation]
	if name == "" {
		name = fmt.Sprintf("layer-%d.yaml", index+1)
	}
	return u.add(name, data)
}

// archive takes the regular files of a tar archive.
func (u *unpacker) archive(data []byte) error {
	reader := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return problem.Usage(ReasonBadArtifact, "", "%s has a broken tar archive: %v", u.source, err).WithCause(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue // Links are not followed, so that a name always means its own content.
		}
		content, err := io.ReadAll(reader) // No more than the archive, which is within the limit.
		if err != nil {
			return problem.Usage(ReasonBadArtifact, "", "%s has a broken tar archive: %v", u.source, err).WithCause(err)
		}
		if err := u.add(header.Name, content); err != nil {
			return err
		}
	}
}

// add keeps a file; later layers replace files of earlier ones.
func (u *unpacker) add(name string, data []byte) error {
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	if !fs.ValidPath(clean) || clean == "." || strings.HasPrefix(path.Base(clean), ".wh.") {
		return problem.Usage(ReasonBadArtifact, "", "%s has a file with the name %q, which can't be used", u.source, name)
	}
	u.files[clean] = data
	return nil
}

// isTar tells a tar archive by its magic number.
func isTar(data []byte) bool { return len(data) >= 512 && string(data[257:262]) == "ustar" }
