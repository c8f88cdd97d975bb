// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// FuzzOpenPackages reads the input as each kind of package database.
func FuzzOpenPackages(f *testing.F) {
	for _, name := range []string{"rpmdb.sqlite", "Packages.db", "Packages"} {
		file, err := os.Open("testdata/" + name + ".gz") //nolint:gosec // its own test data
		if err != nil {
			f.Fatal(err)
		}
		z, err := gzip.NewReader(file)
		if err != nil {
			f.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err = errors.Join(err, file.Close()); err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("Package: a\nStatus: install ok installed\nVersion: 1\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
		for _, read := range []func(*io.SectionReader, func([]byte) error) error{sqliteBlobs, ndbBlobs, bdbBlobs} {
			seen := 0
			_ = read(r, func(blob []byte) error { // an error is as good as packages
				seen += len(blob)
				_, err := rpmHeader(blob)
				return err
			})
			if seen > 64*len(data)+1024 {
				t.Errorf("%d bytes became %d", len(data), seen)
			}
		}
		_, _ = stanzas(bytes.NewReader(data), false) // as above
	})
}

// FuzzOpenModule reads the input as a kernel module and as a program.
func FuzzOpenModule(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Add([]byte("\xfd7zXZ\x00\x00\x01\x69\x22\xde\x36\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5\xa3\x01\x00\x00\x78\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00x\x00"))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r := io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
		_ = moduleInfo(r, &Module{})                             // must end, and not panic
		_, _, _ = binaryVersion(r, &component{name: "x"}, "1.0") // as above
	})
}
