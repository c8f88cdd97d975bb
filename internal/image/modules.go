// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/ulikunitz/xz/lzma"
)

// maxModule bounds an unpacked kernel module.
const maxModule = 64 << 20

// usualDrivers are the drivers of network cards that are reported wherever they are.
func usualDrivers() []string {
	return []string{"bnxt_en", "i40e", "iavf", "ice", "ixgbe", "mlx5_core", "qede", "tg3"}
}

// modules reports the modules that were asked for, for each kernel that has any.
func (l *looker) modules() {
	wanted := slices.Concat(l.options.Modules, usualDrivers())
	for i := range wanted {
		wanted[i] = moduleName(wanted[i])
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for _, k := range l.report.Kernels {
		if k.Modules == "" {
			continue
		}
		where, err := l.modulePaths(k.Modules)
		if err != nil {
			l.report.unread("modules of kernel "+k.Release, err)
			continue
		}
		for _, name := range wanted {
			at, ok := where[name]
			if !ok {
				l.absent(name, k.Release)
				continue
			}
			l.module(name, k.Release, at)
		}
	}
	for _, name := range l.options.Modules {
		if !slices.ContainsFunc(l.report.Kernels, func(k Kernel) bool { return k.Modules != "" }) {
			l.report.unread("module "+name, errors.New("there is no folder of modules"))
		}
	}
}

func (l *looker) module(name, release, at string) {
	m := Module{Name: name, Kernel: release, Path: at}
	r, _, err := l.tree.open(at)
	if err == nil {
		err = moduleInfo(r, &m)
	}
	if err != nil {
		l.report.unread("module "+at, err)
		return
	}
	l.report.Modules = append(l.report.Modules, m)
}

// absent names a module that was asked for and is not there.
func (l *looker) absent(name, release string) {
	asked := slices.ContainsFunc(l.options.Modules, func(m string) bool { return moduleName(m) == name })
	if asked {
		l.report.unread("module "+name, fmt.Errorf("kernel %s has no such module as a file", release))
	}
}

func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// modulePaths returns the file of each module: what modprobe would load by modules.dep, or what is found where that is not.
func (l *looker) modulePaths(dir string) (map[string]string, error) {
	out := map[string]string{}
	b, _, err := l.tree.read(path.Join(dir, "modules.dep"), 64<<20)
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if file, _, ok := strings.Cut(line, ":"); ok {
				addModule(out, path.Join(dir, clean(file)))
			}
		}
		return out, nil
	}
	if !missing(err) {
		return nil, err
	}
	left := 100_000
	return out, l.walk(dir, 12, &left, func(file string) { addModule(out, file) })
}

// addModule takes a file; modules in updates replace those that came with the kernel, as depmod's usual search has it.
func addModule(to map[string]string, file string) {
	base := path.Base(file)
	for _, end := range []string{".gz", ".xz", ".zst"} {
		base = strings.TrimSuffix(base, end)
	}
	name, ok := strings.CutSuffix(base, ".ko")
	if !ok {
		return
	}
	name = moduleName(name)
	if old, there := to[name]; there && (strings.Contains(old, "/updates/") || !strings.Contains(file, "/updates/")) {
		return
	}
	to[name] = file
}

// walk visits the files below a folder.
func (l *looker) walk(dir string, depth int, left *int, visit func(string)) error {
	names, err := l.tree.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if *left--; *left < 0 {
			return errors.New("there are too many files")
		}
		at := path.Join(dir, n)
		if strings.Contains(n, ".ko") {
			visit(at)
			continue
		}
		if n == "build" || n == "source" || depth == 0 || strings.Contains(n, ".") {
			continue
		}
		if err := l.walk(at, depth-1, left, visit); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// moduleInfo reads the section .modinfo of a module, packed or not.
func moduleInfo(r *io.SectionReader, m *Module) error {
	plain, err := unpackModule(r)
	if err != nil {
		return err
	}
	return guard(func() error {
		f, err := elf.NewFile(plain)
		if err != nil {
			return fmt.Errorf("it is no module: %w", err)
		}
		s := f.Section(".modinfo")
		if s == nil || s.Size > maxField {
			return errors.New("it has no section .modinfo that can be read")
		}
		b, err := s.Data()
		if err != nil {
			return fmt.Errorf("read .modinfo: %w", err)
		}
		for field := range bytes.SplitSeq(b, []byte{0}) {
			key, value, _ := strings.Cut(string(field), "=")
			switch key {
			case "version":
				m.Version = clean(value)
			case "srcversion":
				m.SourceVersion = clean(value)
			case "vermagic":
				m.VersionMagic = strings.TrimSpace(clean(value))
			}
		}
		return nil
	})
}

func unpackModule(r *io.SectionReader) (io.ReaderAt, error) {
	head := start(r, 6)
	var from io.Reader
	switch {
	case strings.HasPrefix(head, "\x7fELF"):
		return r, nil
	case strings.HasPrefix(head, "\x1f\x8b"):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		from = z
	case strings.HasPrefix(head, "\x28\xb5\x2f\xfd"):
		z, err := newZstd(r)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		defer z.Close()
		from = z
	case head == "\xfd7zXZ\x00":
		z, err := newXz(r)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		from = z
	default:
		return nil, errors.New("it is neither a module nor packed with gzip, xz or zstd")
	}
	var b []byte
	err := guard(func() (err error) {
		b, err = io.ReadAll(io.LimitReader(from, maxModule+1))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(b) > maxModule {
		return nil, errors.New("it unpacks to more than a module has")
	}
	return bytes.NewReader(b), nil
}

// newXz reads the first block of an xz stream. The kernel's modules have one block with one filter, LZMA2; the header is
// read here because the library would allocate whatever dictionary it asks for.
func newXz(r *io.SectionReader) (io.Reader, error) {
	h := make([]byte, 12+1024) // the stream's header, and the largest of a block
	if err := readFull(r, h[:13], 0); err != nil {
		return nil, err
	}
	size := (int(h[12]) + 1) * 4
	if h[12] == 0 {
		return nil, errors.New("the xz stream is empty")
	}
	if err := readFull(r, h[12:12+size], 12); err != nil {
		return nil, err
	}
	flags, b := h[13], h[14:12+size]
	for _, bit := range []byte{0x40, 0x80} { // sizes that need not be there
		if flags&bit != 0 {
			_, n := binary.Uvarint(b)
			b = b[max(n, 0):]
		}
	}
	if flags&3 != 0 || len(b) < 3 || b[0] != 0x21 || b[1] != 1 || b[2] > 40 {
		return nil, errors.New("it uses a filter of xz that is not read")
	}
	dictionary, err := lzma.DecodeDictCap(b[2])
	if err != nil || dictionary > 64<<20 {
		return nil, fmt.Errorf("its xz dictionary of %d bytes is too large", dictionary)
	}
	return lzma.Reader2Config{DictCap: int(dictionary)}.NewReader2(io.NewSectionReader(r, int64(12+size), r.Size()-int64(12+size)))
}
