// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/capstan-dev/capstan/internal/image"
	"github.com/capstan-dev/capstan/internal/problem"
)

// run runs a tool that images are made with; `make test` installs them where they are not.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	path := ""
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil { //nolint:gosec // the tools of the machine
			path = filepath.Join(dir, name)
			break
		}
	}
	if path == "" {
		if os.Getenv("CAPSTAN_IMAGE_TOOLS") != "" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("%s is not installed; `make image-tools` does that", name)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput() //nolint:gosec // the tools of the machine
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// files writes files by their path below a new folder; a text that begins with "-> " is a link.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // as in an image
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, to)
		} else {
			err = os.WriteFile(to, []byte(text), 0o755) //nolint:gosec // as in an image
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fileSystem makes a raw image of a bare file system out of a folder.
func fileSystem(t *testing.T, dir, size string, options ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "disk.raw")
	run(t, "mke2fs", append(append([]string{"-q", "-F"}, options...), "-d", dir, to, size)...)
	return to
}

func inspect(t *testing.T, name string, o image.Options) (*image.Report, error) {
	t.Helper()
	f, err := (&image.Opener{}).Open(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o.TempDir = t.TempDir()
	return image.Inspect(t.Context(), name, f, f.Size, o)
}

func mustInspect(t *testing.T, name string, o image.Options) *image.Report {
	t.Helper()
	r, err := inspect(t, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name) //nolint:gosec // a file of this test
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reason returns the reason of a fault, and fails unless it names the image and a next step.
func reason(t *testing.T, name string, err error) string {
	t.Helper()
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		t.Fatalf("want a fault in the user's words, got %v", err)
	}
	if !strings.HasPrefix(p.Message, name+" ") || p.Remedy == "" || p.Object != name || strings.Contains(p.Message, "\n") {
		t.Errorf("the fault does not name the image and a next step in one line: %+v", p)
	}
	return p.Reason
}

func packed(t *testing.T, how, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w interface {
		Write(p []byte) (int, error)
		Close() error
	}
	var err error
	switch how {
	case "":
		return text
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// module makes a file such as a kernel module is one: ELF with a section .modinfo.
func module(fields ...string) string {
	info := strings.Join(fields, "\x00") + "\x00"
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2,
		Shoff: uint64(64 + len(info) + len(names)),
	}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	for _, part := range []any{
		h, []byte(info), []byte(names),
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Off: 64, Size: uint64(len(info)), Addralign: 1},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(64 + len(info)), Size: uint64(len(names)), Addralign: 1},
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err) // a buffer takes everything
		}
	}
	return b.String()
}

// program builds a program of the given module whose variable the linker sets.
func program(t *testing.T, name, modulePath, variable, version string, flags ...string) string {
	t.Helper()
	pkg, field, _ := strings.Cut(variable, ":")
	dir := files(t, map[string]string{
		"go.mod":          "module " + modulePath + "\n\ngo 1.24\n",
		pkg + "/v.go":     "package version\n\nvar " + field + ` = "unknown"` + "\n\nfunc Get() string { return " + field + " }\n",
		"cmd/x/main.go":   "package main\n\nimport version \"" + modulePath + "/" + pkg + "\"\n\nfunc main() { println(version.Get()) }\n",
		"cmd/x/README.md": name,
	})
	to := filepath.Join(t.TempDir(), name)
	ldflags := "-s -w -X " + modulePath + "/" + pkg + "." + field + "=" + version
	c := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", to, "-ldflags", ldflags}, flags...), "./cmd/x")...) //nolint:gosec // the compiler
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return string(read(t, to))
}

const osRelease = `PRETTY_NAME="Ubuntu 22.04.4 LTS"
NAME="Ubuntu"
VERSION_ID="22.04"
VERSION="22.04.4 LTS (Jammy Jellyfish)"
ID=ubuntu
`

func stanza(name, version, state string) string {
	return "Package: " + name + "\nStatus: " + state + "\nArchitecture: amd64\nVersion: " + version + "\nDescription: x\n more: lines\n\n"
}

// node is the files of a small node with a kernel.
func node(kernel, containerd string) map[string]string {
	return map[string]string{
		"etc/os-release":                "-> ../usr/lib/os-release",
		"usr/lib/os-release":            osRelease,
		"lib":                           "-> usr/lib",
		"bin/sh":                        module("for=its architecture"),
		"boot/vmlinuz-" + kernel:        "kernel",
		"boot/vmlinuz-5.15.0-9-generic": "an older kernel",
		"boot/grub/grub.cfg":            "menuentry 'Ubuntu' {\n\tlinux\t/boot/vmlinuz-" + kernel + " root=UUID=1 ro\n}\n",
		"usr/lib/modules/" + kernel + "/updates/dkms/i40e.ko.zst": "", // replaced by the caller
		"var/lib/dpkg/status": stanza("containerd.io", containerd, "install ok installed") + stanza("openssl", "3.0.2-0ubuntu1.15", "install ok installed") +
			stanza("runc", "1.1.12-0ubuntu2~22.04.1", "install ok installed") + stanza("gone", "1", "deinstall ok config-files") +
			stanza("kubelet", "1.29.3-1.1", "hold ok installed"),
	}
}
