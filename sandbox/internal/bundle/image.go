// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/sandbox/internal/registry"
)

// Users as distroless bases have them.
const (
	root    = "0"
	nonroot = "65532"
)

// program is a static binary that becomes an image.
type program struct {
	// image is the image's name with its tag.
	image string
	// binary is the file on this machine, and path where it is in the image; it is also the entrypoint.
	binary string
	path   string
	// command are the arguments when a Pod gives none.
	command []string
	// user is who runs it unless a Pod says otherwise.
	user string
	// env is added to the usual environment.
	env []string
	// source is where the program comes from, for the label.
	source string
}

// baseImage is the layer under all programs.
type baseImage struct {
	layer v1.Layer
}

// entry is a file or, if the name ends in a slash, a directory.
type entry struct {
	name string
	mode int64
	uid  int
	text string
}

// newBaseImage makes what programs expect to find besides themselves: users, certificates and the usual directories.
func newBaseImage(certs []byte) (baseImage, error) {
	entries := []entry{
		{name: "dev/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, text: "root:x:0:\nnobody:x:65534:\ntty:x:5:\nstaff:x:50:\nnonroot:x:65532:\n"},
		{name: "etc/nsswitch.conf", mode: 0o644, text: "hosts: files dns\n"},
		{name: "etc/passwd", mode: 0o644, text: "root:x:0:0:root:/root:/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
	}
	if len(certs) > 0 {
		entries = append(entries, entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: string(certs)})
	}
	entries = append(entries,
		entry{name: "home/", mode: 0o755},
		entry{name: "home/nonroot/", mode: 0o700, uid: 65532},
		entry{name: "proc/", mode: 0o755},
		entry{name: "root/", mode: 0o700},
		entry{name: "run/", mode: 0o755},
		entry{name: "sys/", mode: 0o755},
		entry{name: "tmp/", mode: 0o1777},
		entry{name: "var/", mode: 0o755},
		entry{name: "var/run/", mode: 0o755},
	)
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if err := writeEntry(w, e, strings.NewReader(e.text), int64(len(e.text))); err != nil {
			return baseImage{}, err
		}
	}
	if err := w.Close(); err != nil {
		return baseImage{}, err
	}
	return baseImage{layer: static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer)}, nil
}

// writeEntry writes one entry with times and owners that do not depend on the day or the machine.
func writeEntry(w *tar.Writer, e entry, content io.Reader, size int64) error {
	kind := byte(tar.TypeReg)
	if strings.HasSuffix(e.name, "/") {
		kind = tar.TypeDir
	}
	header := &tar.Header{
		Typeflag: kind, Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: size,
		ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

// addProgram makes a program's image and writes it to a store.
func addProgram(to registry.Store, base baseImage, p program) error {
	img, err := p.makeImage(base)
	if err != nil {
		return fmt.Errorf("make image %s: %w", p.image, err)
	}
	return to.Add(p.image, img)
}

func (p program) makeImage(base baseImage) (v1.Image, error) {
	binary, err := newStreamLayer(p.open)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, base.layer, binary); err != nil {
		return nil, err
	}
	_, tag, _ := strings.Cut(path.Base(p.image), ":")
	return mutate.ConfigFile(img, p.config(img, tag))
}

// config is the image's configuration. Layers are known to img already.
func (p program) config(img v1.Image, version string) *v1.ConfigFile {
	file := &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		Config: v1.Config{
			Entrypoint: []string{p.path},
			Cmd:        p.command,
			Env: append([]string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
			}, p.env...),
			WorkingDir: "/",
			User:       p.user,
			Labels: map[string]string{
				"org.opencontainers.image.source":  p.source,
				"org.opencontainers.image.version": version,
			},
		},
		RootFS: v1.RootFS{Type: "layers"},
	}
	if current, err := img.ConfigFile(); err == nil {
		file.RootFS, file.History = current.RootFS, current.History
	}
	return file
}
