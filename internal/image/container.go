// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxUnpacked is where unpacking ends: a small file can ask for any amount.
const maxUnpacked = 256 << 30

// container is the disk in a file, and how it is kept there.
type container struct {
	disk                        disk
	format, detail, compression string
	notes                       []string
	close                       func()
}

// openContainer finds out what a file is and returns the disk in it.
func openContainer(ctx context.Context, file io.ReaderAt, size int64, o *Options) (*container, error) {
	if size == 0 {
		return nil, fail(ReasonEmpty, remedyAgain, "is empty: it has 0 bytes")
	}
	if start(file, 2) != "\x1f\x8b" {
		return openDisk(file, size)
	}
	temporary, unpacked, err := unpack(ctx, io.NewSectionReader(file, 0, size), o)
	if err != nil {
		return nil, err
	}
	drop := func() {
		_ = temporary.Close()           // Only what can be made again is in it.
		_ = os.Remove(temporary.Name()) // As above.
	}
	var c *container
	if start(temporary, 2) == "\x1f\x8b" {
		err = fail(ReasonUnsupported, "unpack it once with gunzip", "is packed with gzip twice")
	} else if unpacked == 0 {
		err = fail(ReasonEmpty, remedyAgain, "is gzip of nothing: unpacked it has 0 bytes")
	} else {
		c, err = openDisk(temporary, unpacked)
	}
	if err != nil {
		drop()
		return nil, err
	}
	inner := c.close
	c.compression, c.close = "gzip", func() { inner(); drop() }
	return c, nil
}

func openDisk(file io.ReaderAt, size int64) (*container, error) {
	if start(file, 4) == qcowMagic {
		q, err := openQcow2(file, size)
		if err != nil {
			return nil, err
		}
		c := &container{disk: q, format: "qcow2", detail: fmt.Sprintf("version %d, %s clusters of %d KiB", q.version, method(q.zstd), 1<<q.clusterBits>>10), close: q.close}
		if q.dirty {
			c.notes = append(c.notes, "the qcow2 file was not closed cleanly; repair it with: qemu-img check -r all FILE")
		}
		if q.snapshots > 0 {
			c.notes = append(c.notes, fmt.Sprintf("the qcow2 file holds %d snapshots, which hosts do not use", q.snapshots))
		}
		return c, nil
	}
	if what := otherFormat(file, size); what != "" {
		return nil, fail(ReasonUnsupported, remedyConvert, "is %s; Capstan reads qcow2 and raw, each also packed with gzip", what)
	}
	return &container{disk: io.NewSectionReader(file, 0, size), format: "raw", close: func() {}}, nil
}

func method(isZstd bool) string {
	if isZstd {
		return "zstd"
	}
	return "zlib"
}

// otherFormat names what is neither qcow2 nor raw but known.
func otherFormat(file io.ReaderAt, size int64) string {
	head := start(file, 512)
	for magic, what := range map[string]string{
		"\xfd7zXZ\x00": "packed with xz", "\x28\xb5\x2f\xfd": "packed with zstd", "BZh": "packed with bzip2", "PK\x03\x04": "a zip archive", "7z\xbc\xaf": "a 7z archive",
		"KDMV": "a VMDK image", "COWD": "a VMDK image", "# Disk DescriptorFile": "a VMDK descriptor", "vhdxfile": "a VHDX image", "conectix": "a VHD image",
		"QED\x00": "a QED image", "OOOO": "a QCOW image of version 1", "<!DOCTYPE": "a web page", "<!doctype": "a web page", "<html": "a web page", "<?xml": "an XML document",
		"version https://git-lfs": "a pointer to a file in Git LFS", "\x7fELF": "a program",
	} {
		if strings.HasPrefix(head, magic) {
			return what
		}
	}
	switch {
	case len(head) > 0x44 && head[0x40:0x44] == "\x7f\x10\xda\xbe":
		return "a VDI image"
	case len(head) > 262 && head[257:262] == "ustar":
		return "a tar archive"
	case size >= 512 && startAt(file, size-512, 8) == "conectix":
		return "a VHD image"
	}
	return ""
}

func start(file io.ReaderAt, n int) string { return startAt(file, 0, n) }

// startAt returns up to n bytes; what can't be read is shown by whoever reads on.
func startAt(file io.ReaderAt, at int64, n int) string {
	b := make([]byte, n)
	got, err := file.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return string(b[:got])
}

// unpack writes what gzip packed into a temporary file with holes, for disks are read at random.
func unpack(ctx context.Context, from io.Reader, o *Options) (*os.File, int64, error) {
	z, err := gzip.NewReader(&interruptible{ctx, from})
	if err != nil {
		return nil, 0, packed(err)
	}
	f, err := os.CreateTemp(o.TempDir, "capstan-image-*")
	if err != nil {
		return nil, 0, fmt.Errorf("make temporary file: %w", err)
	}
	size, err := copySparse(f, z)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return nil, 0, errors.Join(packed(err), f.Close(), os.Remove(f.Name()))
	}
	return f, size, nil
}

func packed(err error) error {
	var damaged interface{ Error() string }
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fail(ReasonTruncated, remedyAgain, "is truncated: its gzip data ends too early")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &damaged) && strings.HasPrefix(damaged.Error(), "flate:"):
		return fail(ReasonCorrupt, remedyAgain, "is corrupt: its gzip data can't be unpacked (%v)", err)
	case errors.Is(err, syscall.ENOSPC):
		return fail(ReasonNoSpace, "make room there, or name another folder: TMPDIR=/folder/with/room capstan image …",
			"is packed, and there is no room for what it unpacks to in the folder for temporary files")
	}
	return err
}

// copySparse copies and leaves out blocks of zeros.
func copySparse(to *os.File, from io.Reader) (int64, error) {
	block, at := make([]byte, 64<<10), int64(0)
	for {
		n, err := io.ReadFull(from, block)
		if n > 0 && strings.Trim(string(block[:n]), "\x00") != "" {
			if _, err := to.WriteAt(block[:n], at); err != nil {
				return 0, err
			}
		}
		at += int64(n)
		switch {
		case at > maxUnpacked:
			return 0, fail(ReasonTooLarge, "unpack it yourself if it really is that large", "unpacks to more than %d GiB", int64(maxUnpacked)>>30)
		case errors.Is(err, io.EOF), n > 0 && n < len(block) && endsHere(from, err):
			return at, nil
		case err != nil:
			return 0, err
		}
	}
}

// endsHere tells a short last block from data that was cut off: after the one, the reader says EOF.
func endsHere(from io.Reader, err error) bool {
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	_, err = from.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// interruptible reads until ctx ends.
type interruptible struct {
	ctx  context.Context //nolint:containedctx // a Read has no place for it
	from io.Reader
}

// Read reads, or returns why it was interrupted.
func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.from.Read(p)
}

// newZstd is a decoder that works in the caller's goroutine and in bounded memory.
func newZstd(from io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderLowmem(true))
}
