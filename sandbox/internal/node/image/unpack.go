// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// Names that remove something of the layers below.
const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
)

func unpackLayer(ctx context.Context, layer v1.Layer, root string) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return fmt.Errorf("fetch layer: %w", err)
	}
	u := unpacker{root: root, made: map[string]bool{}}
	err = u.all(ctx, tar.NewReader(content))
	if closeErr := content.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("unpack layer: %w", err)
	}
	return nil
}

// unpacker applies one layer to the files of those below.
type unpacker struct {
	root string
	made map[string]bool // what this layer made: an opaque mark does not touch it
	dirs []*tar.Header   // their modes come last, or they could not be written to
}

func (u *unpacker) all(ctx context.Context, content *tar.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := content.Next()
		if errors.Is(err, io.EOF) {
			return u.finishDirs()
		}
		if err != nil {
			return err
		}
		if err := u.entry(header, content); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// place returns where name goes: symbolic links of the image are followed for
// its directory, never for itself, and never lead out of root.
func (u *unpacker) place(name string) (string, error) {
	clean := filepath.Clean("/" + name)
	if clean == "/" {
		return u.root, nil
	}
	dir, err := container.ResolveIn(u.root, filepath.Dir(clean))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as in the image
		return "", err
	}
	return filepath.Join(dir, filepath.Base(clean)), nil
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	path, err := u.place(header.Name)
	if err != nil {
		return err
	}
	base := filepath.Base(path)
	switch {
	case base == whiteoutOpaque:
		return u.clear(filepath.Dir(path))
	case strings.HasPrefix(base, whiteoutPrefix):
		return os.RemoveAll(filepath.Join(filepath.Dir(path), strings.TrimPrefix(base, whiteoutPrefix)))
	}
	u.made[path] = true
	if err := u.write(path, header, content); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		u.dirs = append(u.dirs, header)
		return nil
	}
	return own(path, header)
}

// clear removes what the layers below had in dir.
func (u *unpacker) clear(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if path := filepath.Join(dir, entry.Name()); !u.made[path] {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *unpacker) write(path string, header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeDir {
		return makeDir(path)
	}
	if path == u.root {
		return errors.New("the root must be a directory")
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg:
		return writeFile(path, content)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, path)
	case tar.TypeLink:
		source, err := u.place(header.Linkname)
		if err != nil {
			return err
		}
		return os.Link(source, path)
	case tar.TypeFifo:
		return syscall.Mkfifo(path, 0o600)
	}
	return nil // devices can't be made without root, and /dev is our own
}

func makeDir(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Mkdir(path, 0o755) //nolint:gosec // as in the image
}

func writeFile(path string, content io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil { //nolint:gosec // the images are our own
		file.Close()
		return err
	}
	return file.Close()
}

// own sets owner and mode. An owner that this user namespace does not know is
// left out: then everything belongs to the one user there is.
func own(path string, header *tar.Header) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // a device
	}
	err := os.Lchown(path, header.Uid, header.Gid)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	if header.Typeflag == tar.TypeSymlink || header.Typeflag == tar.TypeLink {
		return nil
	}
	return os.Chmod(path, header.FileInfo().Mode())
}

func (u *unpacker) finishDirs() error {
	for _, v := range slices.Backward(u.dirs) {
		path, err := u.place(v.Name)
		if err != nil {
			return err
		}
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue // replaced or removed later in the layer
		}
		if err := own(path, v); err != nil {
			return err
		}
	}
	return nil
}
