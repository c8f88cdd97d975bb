// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/image"
	"github.com/capstan-dev/capstan/internal/problem"
)

// header is a qcow2 header of version 3, with 64 KiB clusters, for a disk of 1 MiB without data, and its tables.
func header(change func(h []byte)) []byte {
	h := make([]byte, 3<<16)
	be := binary.BigEndian
	copy(h, "QFI\xfb")
	be.PutUint32(h[4:], 3)
	be.PutUint32(h[20:], 16)
	be.PutUint64(h[24:], 1<<20)
	be.PutUint32(h[36:], 1)
	be.PutUint64(h[40:], 1<<16)
	be.PutUint32(h[100:], 112)
	be.PutUint64(h[1<<16:], 2<<16)
	change(h)
	return h
}

func random(n int) []byte {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n) //nolint:gosec // the same bytes each time
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestWhatIsNoImageGetsOneClearFault(t *testing.T) {
	t.Parallel()
	be := binary.BigEndian
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"zero length":                       {nil, image.ReasonEmpty},
		"zeros":                             {make([]byte, 1<<20), image.ReasonEmpty},
		"random data":                       {random(1 << 20), image.ReasonUnrecognised},
		"a few bytes":                       {[]byte("hello"), image.ReasonUnrecognised},
		"a web page":                        {[]byte("<html><body>404"), image.ReasonUnsupported},
		"another format":                    {append([]byte("KDMV"), make([]byte, 2000)...), image.ReasonUnsupported},
		"wrong magic":                       {header(func(h []byte) { h[3] = 'x' }), image.ReasonUnrecognised},
		"magic alone":                       {[]byte("QFI\xfb"), image.ReasonTruncated},
		"header cut":                        {header(func([]byte) {})[:90], image.ReasonTruncated},
		"empty disk":                        {header(func([]byte) {}), image.ReasonEmpty},
		"disk of 0 bytes":                   {header(func(h []byte) { be.PutUint64(h[24:], 0) }), image.ReasonEmpty},
		"version 4":                         {header(func(h []byte) { h[7] = 4 }), image.ReasonUnsupported},
		"version 1":                         {header(func(h []byte) { h[7] = 1 }), image.ReasonUnsupported},
		"AES":                               {header(func(h []byte) { h[35] = 1 }), image.ReasonEncrypted},
		"LUKS":                              {header(func(h []byte) { h[35] = 2 }), image.ReasonEncrypted},
		"backing file":                      {header(func(h []byte) { h[15] = 200; h[19] = 8; copy(h[200:], "base.img") }), image.ReasonBacking},
		"backing file without a name":       {header(func(h []byte) { be.PutUint64(h[8:], 1<<60) }), image.ReasonBacking},
		"data file":                         {header(func(h []byte) { h[79] = 4 }), image.ReasonBacking},
		"marked corrupt":                    {header(func(h []byte) { h[79] = 2 }), image.ReasonCorrupt},
		"subclusters":                       {header(func(h []byte) { h[79] = 16 }), image.ReasonUnsupported},
		"feature nobody knows":              {header(func(h []byte) { h[72] = 1 }), image.ReasonUnsupported},
		"compression nobody knows":          {header(func(h []byte) { h[79] = 8; h[104] = 9 }), image.ReasonUnsupported},
		"zstd that is not declared":         {header(func(h []byte) { h[104] = 1 }), image.ReasonCorrupt},
		"clusters of 4 GiB":                 {header(func(h []byte) { h[23] = 32 }), image.ReasonCorrupt},
		"clusters of 1 byte":                {header(func(h []byte) { h[23] = 0 }), image.ReasonCorrupt},
		"disk of exabytes":                  {header(func(h []byte) { be.PutUint64(h[24:], 1<<62) }), image.ReasonTooLarge},
		"disk of more than all":             {header(func(h []byte) { be.PutUint64(h[24:], 1<<63+5) }), image.ReasonTooLarge},
		"disk of terabytes":                 {header(func(h []byte) { be.PutUint64(h[24:], 60<<40) }), image.ReasonCorrupt},
		"first table of gigabytes":          {header(func(h []byte) { be.PutUint32(h[36:], 1<<31) }), image.ReasonTooLarge},
		"first table far away":              {header(func(h []byte) { be.PutUint64(h[40:], 1<<62) }), image.ReasonTruncated},
		"first table past all":              {header(func(h []byte) { be.PutUint64(h[40:], 1<<63) }), image.ReasonTruncated},
		"second table far away":             {header(func(h []byte) { be.PutUint64(h[1<<16:], 1<<40) }), image.ReasonTruncated},
		"second table at no border":         {header(func(h []byte) { be.PutUint64(h[1<<16:], 1<<16+512) }), image.ReasonCorrupt},
		"data far away":                     {header(func(h []byte) { be.PutUint64(h[2<<16:], 1<<40) }), image.ReasonTruncated},
		"packed data far away":              {header(func(h []byte) { be.PutUint64(h[2<<16:], 1<<62|1<<40) }), image.ReasonTruncated},
		"packed data that is none":          {header(func(h []byte) { be.PutUint64(h[2<<16:], 1<<62|600) }), image.ReasonCorrupt},
		"header of a megabyte":              {header(func(h []byte) { be.PutUint32(h[100:], 1<<20) }), image.ReasonCorrupt},
		"gzip cut":                          {[]byte(packed(t, ".gz", string(random(1<<18))))[:1<<17], image.ReasonTruncated},
		"gzip header alone":                 {[]byte("\x1f\x8b\x08\x00"), image.ReasonTruncated},
		"gzip damaged":                      {append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), random(1000)...), image.ReasonCorrupt},
		"gzip of nothing":                   {[]byte(packed(t, ".gz", "")), image.ReasonEmpty},
		"gzip of gzip":                      {[]byte(packed(t, ".gz", packed(t, ".gz", "x"))), image.ReasonUnsupported},
		"gzip of random data":               {[]byte(packed(t, ".gz", string(random(1<<20)))), image.ReasonUnrecognised},
		"gzip of an encrypted image":        {[]byte(packed(t, ".gz", string(header(func(h []byte) { h[35] = 2 })))), image.ReasonEncrypted},
		"a disk that is LUKS":               {append([]byte("LUKS\xba\xbe"), make([]byte, 1<<20)...), image.ReasonEncrypted},
		"xz, which hosts do not unpack too": {[]byte(packed(t, ".xz", "x")), image.ReasonUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, "node.qcow2", tc.data)
			r, err := inspect(t, file, image.Options{})
			if err == nil {
				t.Fatalf("it was read: %+v", r)
			}
			if got := reason(t, file, err); got != tc.want {
				t.Errorf("want %s, got %v", tc.want, err)
			}
		})
	}
}

func TestAnImageThatWasCutIsNeverTakenForWhole(t *testing.T) {
	t.Parallel()
	raw := partitioned(t, node(kernel, "1.7.12-1"))
	for _, options := range [][]string{{"-O", "raw"}, {"-O", "qcow2"}, {"-O", "qcow2", "-c"}, {"-O", "qcow2", "-c", "-o", "compression_type=zstd"}} {
		t.Run(strings.Join(options, " "), func(t *testing.T) {
			t.Parallel()
			whole := filepath.Join(t.TempDir(), "whole")
			run(t, "qemu-img", append(append([]string{"convert", "-f", "raw"}, options...), raw, whole)...)
			data := read(t, whole)
			for _, part := range []int{1, 10, 50, 90, 97} {
				file := write(t, fmt.Sprintf("cut-%d", part), data[:len(data)*part/100])
				_, err := inspect(t, file, image.Options{NoDigest: true})
				if err == nil {
					t.Errorf("%d%% of %d bytes were taken for whole", part, len(data))
					continue
				}
				if got := reason(t, file, err); got != image.ReasonTruncated {
					t.Errorf("%d%%: %v", part, err)
				}
			}
		})
	}
}

func TestBackingFilesAndEncryptionAsQEMUMakesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := filepath.Join(dir, "base.qcow2")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", base, "10M")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"backing":   {[]string{"-b", base, "-F", "qcow2"}, image.ReasonBacking},
		"data-file": {[]string{"-o", "data_file=" + filepath.Join(dir, "data.raw")}, image.ReasonBacking},
		"aes":       {[]string{"--object", "secret,id=s,data=abc", "-o", "encrypt.format=aes,encrypt.key-secret=s"}, image.ReasonEncrypted},
		"extended":  {[]string{"-o", "extended_l2=on"}, image.ReasonUnsupported},
	} {
		file := filepath.Join(dir, name)
		args := append(append([]string{"create", "-q", "-f", "qcow2"}, tc.args...), file)
		if name != "backing" {
			args = append(args, "10M")
		}
		run(t, "qemu-img", args...)
		_, err := inspect(t, file, image.Options{})
		if err == nil {
			t.Errorf("%s was read", name)
		} else if got := reason(t, file, err); got != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPackagesOfEachRPMDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rpmdb.sqlite", "Packages.db", "Packages"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := plain(t, filepath.Join("testdata", name+".gz"))
			r := mustInspect(t, fileSystem(t, files(t, map[string]string{"etc/os-release": osRelease, "var/lib/rpm/" + name: string(data)}), "8M"), image.Options{AllPackages: true})
			want := []image.Package{
				{Name: "containerd.io", Version: "1.6.33-3.1.el9", Architecture: "x86_64", Database: "rpm"},
				{Name: "kubelet", Version: "1.30.2-150500.1.1", Architecture: "x86_64", Database: "rpm"},
				{Name: "openssl", Version: "1:3.0.7-27.el9", Architecture: "x86_64", Database: "rpm"},
			}
			if d := cmp.Diff(want, r.Packages); d != "" {
				t.Errorf("%s\n%v", d, r.Unread)
			}
			if r.Version("kubelet") != "v1.30.2" || r.Version("containerd") != "1.6.33" {
				t.Errorf("components: %+v", r.Components)
			}
			cut := mustInspect(t, fileSystem(t, files(t, map[string]string{"etc/os-release": osRelease, "var/lib/rpm/" + name: string(data[:len(data)/3])}), "8M"), image.Options{})
			if !strings.Contains(fmt.Sprint(cut.Unread), "/var/lib/rpm/"+name) {
				t.Errorf("a damaged database is not named: %v", cut.Unread)
			}
		})
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	r := mustInspect(t, fileSystem(t, files(t, map[string]string{
		"etc/os-release":               osRelease,
		"etc/fstab":                    "-> fstab",
		"usr/bin/kubelet":              "no program",
		"lib/modules/6.1/kernel/x.ko":  "no module",
		"boot/vmlinuz-6.1":             "x",
		"var/lib/dpkg/status.d/base":   "Package: base-files\nVersion: 12\n",
		"var/lib/rpm/rpmdb.sqlite":     "no database",
		"lib/modules/6.1/kernel/y.txt": "",
	}), "8M"), image.Options{Modules: []string{"x"}})
	all := fmt.Sprint(r.Unread)
	for _, want := range []string{"/etc/fstab", "kubelet at /usr/bin/kubelet", "module /lib/modules/6.1/kernel/x.ko", "/var/lib/rpm/rpmdb.sqlite", "containerd", "architecture"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not named in %s", want, all)
		}
	}
	if r.PackageCount != 1 {
		t.Errorf("%d packages", r.PackageCount)
	}
}

func TestADownloadGoesOnWhereItWasCut(t *testing.T) {
	t.Parallel()
	data := read(t, fileSystem(t, files(t, map[string]string{"etc/os-release": osRelease}), "4M"))
	var ranges []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:1<<20])
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	defer server.Close()
	dir := t.TempDir()
	f, err := (&image.Opener{TempDir: dir}).Open(t.Context(), server.URL+"/disk.raw")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	if len(ranges) != 2 || !strings.HasPrefix(ranges[1], "bytes=") {
		t.Errorf("asked for %q", ranges)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestSourcesThatGiveNoImage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for source, want := range map[string]string{
		"/nowhere/disk.qcow2":     image.ReasonNotFound,
		t.TempDir():               image.ReasonNotFound,
		server.URL + "/x":         image.ReasonUnreachable,
		"http://127.0.0.1:1/x":    image.ReasonUnreachable,
		"ftp://example.test/disk": image.ReasonUnsupported,
	} {
		_, err := (&image.Opener{TempDir: t.TempDir()}).Open(t.Context(), source)
		if err == nil {
			t.Fatalf("%s was opened", source)
		}
		if _, ok := errors.AsType[*problem.Error](err); !ok {
			t.Fatalf("%s: %v", source, err)
		}
		if got := reason(t, source, err); got != want {
			t.Errorf("%s: %v", source, err)
		}
	}
}
