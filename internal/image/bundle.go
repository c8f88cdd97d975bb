// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	ociScheme = "oci://"
	// titleAnnotation is where artifact tools note the file name of a layer.
	titleAnnotation = "org.opencontainers.image.title"
	// maxChecksum bounds a checksum file, maxBundle how many of them are kept.
	maxChecksum, maxBundle = 64 << 10, 100
)

// bundle is a container image or an artifact whose layers hold disk images, and their checksum files.
type bundle struct {
	opener *Opener
	file   *os.File
	// wanted is the name that was asked for; empty is the only one there is.
	wanted string
	// images are the names of all disk images, got is the one in file.
	images []string
	got    string
	// checksums are the small files whose names say that they hold a checksum.
	checksums map[string]string
}

// pull brings a disk image out of a registry: oci://registry/repository:tag, or with #NAME one of several.
func (o *Opener) pull(ctx context.Context, source string) (*File, error) {
	address, wanted, _ := strings.Cut(strings.TrimPrefix(source, ociScheme), "#")
	ref, err := name.ParseReference(address, name.StrictValidation)
	if err != nil {
		return nil, named(source, fail(ReasonUnsupported, "oci://registry/repository:tag, with #NAME for one of several images", "is not a reference to an image in a registry"))
	}
	f, err := os.CreateTemp(o.TempDir, "capstan-download-*")
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	drop := func() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
	b := &bundle{opener: o, file: f, wanted: wanted, checksums: map[string]string{}}
	size, err := b.fetch(ctx, ref)
	if err != nil {
		return nil, errors.Join(b.why(ctx, source, err), drop())
	}
	return &File{ReaderAt: f, Size: size, close: drop}, nil
}

// why puts an error of the registry in the user's words.
func (b *bundle) why(ctx context.Context, source string, err error) error {
	if _, ok := errors.AsType[*fault](err); ok {
		return named(source, err)
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return named(source, fail(ReasonUnreachable, "check the reference, and log in to the registry if it needs that, for example with: docker login", "can't be pulled: the registry answers %d (%s)", answer.StatusCode, clean(answer.Error())))
	}
	return b.opener.why(ctx, source, err)
}

// fetch goes through the layers, and returns the size of the one image that is meant.
func (b *bundle) fetch(ctx context.Context, ref name.Reference) (int64, error) {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("capstan")}
	if b.opener.HTTP != nil && b.opener.HTTP.Transport != nil {
		options = append(options, remote.WithTransport(b.opener.HTTP.Transport))
	}
	img, err := remote.Image(ref, options...)
	if err != nil {
		return 0, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	size := int64(0)
	for _, d := range manifest.Layers {
		n, err := b.layer(img, d)
		if err != nil {
			return 0, err
		}
		size = max(size, n)
	}
	slices.Sort(b.images)
	switch {
	case len(b.images) == 0:
		return 0, fail(ReasonUnrecognised, "check the reference; files that end in .qcow2, .img or .raw are looked for", "holds no disk image")
	case b.got == "":
		return 0, fail(ReasonNotFound, "name one of these", "has no disk image %s; it has %s", clean(b.wanted), strings.Join(b.images, ", "))
	case b.wanted == "" && len(b.images) > 1:
		return 0, fail(ReasonNotFound, "put one of the names behind the reference: oci://…#"+b.images[0], "holds %d disk images: %s", len(b.images), strings.Join(b.images, ", "))
	}
	return size, b.verify(ctx, size)
}

// layer takes an archive's files, or a file whose name is in the annotations. It returns the size of the image that is meant,
// 0 if it is not in the layer.
func (b *bundle) layer(img v1.Image, d v1.Descriptor) (int64, error) {
	l, err := img.LayerByDigest(d.Digest)
	if err != nil {
		return 0, err
	}
	title := d.Annotations[titleAnnotation]
	single := title != "" && !strings.HasSuffix(title, ".tar") && !strings.HasSuffix(title, ".tar.gz") && !strings.HasSuffix(title, ".tgz")
	open := l.Uncompressed
	if single {
		open = l.Compressed
	}
	content, err := open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }() // Only reads were made.
	if single {
		return b.take(title, content)
	}
	size, archive := int64(0), tar.NewReader(content)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, fmt.Errorf("a layer is no tar archive, or a broken one: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		n, err := b.take(h.Name, archive)
		if err != nil {
			return 0, err
		}
		size = max(size, n)
	}
}

// take keeps a file if it is the image that is meant, or a checksum.
func (b *bundle) take(file string, content io.Reader) (int64, error) {
	base := path.Base(clean(file))
	if slices.ContainsFunc([]string{".md5sum", ".md5", ".sha256sum", ".sha256", ".sha512sum", ".sha512"}, func(end string) bool { return strings.HasSuffix(base, end) }) {
		data, err := io.ReadAll(io.LimitReader(content, maxChecksum))
		if len(b.checksums) < maxBundle {
			b.checksums[base] = string(data)
		}
		return 0, err
	}
	plain := strings.TrimSuffix(base, ".gz")
	if !slices.Contains([]string{".qcow2", ".img", ".raw"}, path.Ext(plain)) {
		return 0, nil
	}
	if len(b.images) < maxBundle && !slices.Contains(b.images, base) {
		b.images = append(b.images, base)
	}
	if b.wanted != "" && b.wanted != base || b.wanted == "" && b.got != "" && b.got != base {
		return 0, nil
	}
	b.got = base
	if err := b.file.Truncate(0); err != nil { // a later layer replaces the file of an earlier one
		return 0, err
	}
	size, err := copySparse(b.file, &counted{from: content, tell: b.opener.Progress})
	if err != nil {
		return 0, err
	}
	return size, b.file.Truncate(size)
}

// verify compares the image with the checksum files beside it.
func (b *bundle) verify(ctx context.Context, size int64) error {
	for _, file := range slices.Sorted(maps.Keys(b.checksums)) {
		kind, ok := strings.CutPrefix(file, b.got+".")
		if !ok {
			continue
		}
		kind = strings.TrimSuffix(kind, "sum")
		sums, err := digests(ctx, io.NewSectionReader(b.file, 0, size), []string{kind})
		if err != nil {
			return err
		}
		fields := strings.Fields(b.checksums[file])
		if len(fields) == 0 || !strings.EqualFold(fields[0], sums[kind]) {
			return fail(ReasonCorrupt, "ask whoever built it; the registry gave what was put there", "holds %s, whose %s is %s, and %s says otherwise", b.got, kind, sums[kind], file)
		}
	}
	return nil
}

// counted tells how much was read.
type counted struct {
	from io.Reader
	tell func(done, total int64)
	done int64
}

// Read reads and tells.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.done += int64(n); c.tell != nil {
		c.tell(c.done, 0)
	}
	return n, err
}
