// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Options say what to look for.
type Options struct {
	// Packages are the packages to report; AllPackages reports each.
	Packages    []string
	AllPackages bool
	// Modules are the kernel modules to report, beside usual drivers of network cards.
	Modules []string
	// Digests are digests of the file besides sha256: md5, sha512.
	Digests []string
	// NoDigest leaves the digests away, for a file that was not read as a whole.
	NoDigest bool
	// TempDir is where temporary files are made; empty is the system's folder.
	TempDir string
}

// Inspect reads an image. Faults name it as source.
func Inspect(ctx context.Context, source string, file io.ReaderAt, size int64, o Options) (r *Report, err error) {
	defer func() { // the fuzz tests take this for a failure
		if p := recover(); p != nil {
			r, err = nil, named(source, fail(ReasonCorrupt, remedyRebuild, "is damaged in a way that was not foreseen: %v", p))
		}
	}()
	r, err = inspect(ctx, source, file, size, &o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("read image %s: %w", source, ctx.Err())
	}
	if err != nil {
		return nil, named(source, err)
	}
	return r, nil
}

func inspect(ctx context.Context, source string, file io.ReaderAt, size int64, o *Options) (*Report, error) {
	c, err := openContainer(ctx, file, size, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	r := &Report{
		Source: source, SizeBytes: size, Compression: c.compression, Format: c.format, FormatDetail: c.detail,
		VirtualSizeBytes: c.disk.Size(), Notes: c.notes,
	}
	t, err := readDisk(r, &guarded{ctx: ctx, disk: c.disk})
	if err != nil {
		return nil, err
	}
	if t != nil {
		contents(&looker{tree: t, report: r, options: o})
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !o.NoDigest {
		if r.Digests, err = digests(ctx, io.NewSectionReader(file, 0, size), o.Digests); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// maxRead is how much is read of one disk in all, far above what any image needs: folders that are made so that they are
// read again and again must come to an end.
const maxRead = 64 << 30

// guarded is a disk that is read until ctx ends, or until too much was read.
type guarded struct {
	ctx context.Context //nolint:containedctx // a ReadAt has no place for it
	disk
	read int64
}

// ReadAt reads from the disk, or returns why it may not.
func (g *guarded) ReadAt(p []byte, off int64) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	if g.read += int64(len(p)) + 4096; g.read > maxRead {
		return 0, fail(ReasonCorrupt, remedyRebuild, "is corrupt: its files can't be read with a bearable number of reads")
	}
	return g.disk.ReadAt(p, off)
}

// found is a file system in a partition.
type found struct {
	index int
	fs    fileSystem
}

// readDisk reports the partitions and returns the file systems, mounted; nil if none holds a system.
func readDisk(r *Report, d disk) (*tree, error) {
	kind, parts, err := findPartitions(d)
	if err != nil {
		return nil, err
	}
	r.PartitionTable = kind
	var systems []found
	for i := range parts {
		p := &parts[i]
		if err := probe(p.reader, p.SizeBytes); err != nil {
			return nil, err
		}
		p.Content = contentOf(p.reader)
		f, err := openFileSystem(p)
		if _, isFault := errors.AsType[*fault](err); isFault {
			return nil, err
		}
		if err != nil {
			r.unread(p.title(), err)
		} else if f != nil {
			systems = append(systems, found{i, f})
			var dirty bool
			p.Content, p.FileSystemLabel, p.FileSystemUUID, dirty = f.about()
			if dirty {
				r.Notes = append(r.Notes, p.title()+" was not unmounted cleanly: its journal is not replayed, so the newest changes may be missing")
			}
		}
		r.Partitions = append(r.Partitions, p.Partition)
	}
	if err := nothing(r, d); err != nil {
		return nil, err
	}
	return mountAll(r, systems), nil
}

// openFileSystem opens the file system in a partition, nil if it holds none that can be read.
func openFileSystem(p *partition) (fileSystem, error) {
	switch p.Content {
	case "ext":
		f, err := openExt4(p.reader, p.SizeBytes)
		if err != nil {
			return nil, err
		}
		return f, nil
	case "xfs":
		f, err := openXFS(p.reader, p.SizeBytes)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	return nil, nil //nolint:nilnil // there is nothing to open
}

// title is how a partition is named to people.
func (p *Partition) title() string {
	if p.Number == 0 {
		return "the disk"
	}
	return "partition " + strconv.Itoa(p.Number)
}

// nothing is the fault of a disk on which nothing was recognised, or nothing that can be read without a key.
func nothing(r *Report, d disk) error {
	kinds := map[string]bool{}
	for _, p := range r.Partitions {
		kinds[p.Content] = true
	}
	readable := kinds["ext4"] || kinds["ext3"] || kinds["ext2"] || kinds["ext"]
	switch {
	case kinds["luks"] && !readable && !kinds["xfs"] && !kinds["btrfs"] && !kinds["lvm"]:
		return fail(ReasonEncrypted, "build the image without disk encryption, or add it at first boot", "is encrypted: its disk holds LUKS and no file system that can be read")
	case r.PartitionTable == "" && kinds[""]:
		if strings.Trim(start(d, 1<<20), "\x00") == "" {
			return fail(ReasonEmpty, remedyRebuild, "holds an empty disk: it begins with zeros, without partition table or file system")
		}
		return fail(ReasonUnrecognised, "check that it is the right file; a disk image begins with a qcow2 header, a partition table or a file system",
			"is no disk image: it has neither a qcow2 header nor a partition table nor a file system")
	}
	return nil
}

// mountAll finds the root and puts the others where its fstab says; what can't be read is named.
func mountAll(r *Report, systems []found) *tree {
	for _, p := range r.Partitions {
		switch p.Content {
		case "btrfs", "lvm", "luks", "squashfs", "erofs", "f2fs", "iso9660":
			r.unread(p.title(), fmt.Errorf("Capstan does not read %s; what is on it is not in this report", p.Content)) //nolint:staticcheck // the product's name begins the sentence
		}
	}
	var t *tree
	for _, f := range systems {
		c := &tree{mounts: map[string]fileSystem{"/": f.fs}}
		if isRoot(c) {
			t, r.Partitions[f.index].Mount = c, "/"
			break
		}
	}
	if t == nil {
		r.unread("operating system", errors.New("no file system that can be read has /etc/os-release or /usr/lib/os-release"))
		return nil
	}
	table, _, err := t.read("/etc/fstab", 1<<20)
	if err != nil && !missing(err) {
		r.unread("/etc/fstab", err)
	}
	for _, f := range systems {
		p := &r.Partitions[f.index]
		if p.Mount != "" {
			continue
		}
		if at := mountPoint(string(table), p); at != "" && at != "/" {
			p.Mount = at
		} else if isBoot(f.fs) && t.mounts["/boot"] == nil {
			p.Mount = "/boot"
		} else {
			continue
		}
		t.mounts[p.Mount] = f.fs
	}
	return t
}

func isRoot(t *tree) bool {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release", "/var/lib/dpkg/status", "/etc/passwd"} {
		if _, err := t.find(name); err == nil {
			return true
		}
	}
	return false
}

// isBoot tells a file system that is mounted at /boot, where no fstab says so.
func isBoot(f fileSystem) bool {
	names, err := (&tree{mounts: map[string]fileSystem{"/": f}}).names("/")
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "vmlinuz-") })
}

// mountPoint is where fstab mounts a partition, "" if it does not.
func mountPoint(table string, p *Partition) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || !strings.HasPrefix(fields[1], "/") {
			continue
		}
		device := strings.NewReplacer("/dev/disk/by-uuid/", "UUID=", "/dev/disk/by-label/", "LABEL=", "/dev/disk/by-partuuid/", "PARTUUID=",
			"/dev/disk/by-partlabel/", "PARTLABEL=", `"`, "").Replace(fields[0])
		key, value, _ := strings.Cut(device, "=")
		var is string
		switch key {
		case "UUID":
			is = p.FileSystemUUID
		case "LABEL":
			is = p.FileSystemLabel
		case "PARTUUID":
			is = p.UUID
		case "PARTLABEL":
			is = p.Label
		}
		if is != "" && strings.EqualFold(is, value) || isDevice(device, p.Number) {
			return path.Clean(fields[1])
		}
	}
	return ""
}

// isDevice tells that a name such as /dev/vda1 or /dev/nvme0n1p1 is a partition of the first disk with that number.
func isDevice(name string, number int) bool {
	for _, disk := range []string{"/dev/sda", "/dev/vda", "/dev/xvda", "/dev/hda", "/dev/nvme0n1p", "/dev/mmcblk0p"} {
		if number > 0 && name == disk+strconv.Itoa(number) {
			return true
		}
	}
	return false
}

// looker fills a report from the tree.
type looker struct {
	tree    *tree
	report  *Report
	options *Options
	all     []Package
}

// contents reads everything that is in the files.
func contents(l *looker) {
	l.os()
	l.kernels()
	l.packages()
	l.components()
	l.architecture()
	l.modules()
}

// tried notes an error unless it only says that there is no such file.
func (l *looker) tried(what string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.report.unread(what, err)
	}
}
