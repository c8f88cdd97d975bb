// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/image"
)

const kernel = "5.15.0-105-generic"

// richNode has programs and modules.
func richNode(t *testing.T, kernel, containerd string) map[string]string {
	t.Helper()
	n := node(kernel, containerd)
	modules := "usr/lib/modules/" + kernel
	n[modules+"/updates/dkms/i40e.ko.zst"] = packed(t, ".zst", module("version=2.25.9", "srcversion=AB12", "vermagic="+kernel+" SMP mod_unload "))
	n[modules+"/kernel/drivers/net/ethernet/intel/i40e/i40e.ko"] = module("version=in-tree")
	n[modules+"/kernel/drivers/net/ice.ko.gz"] = packed(t, ".gz", module("srcversion=CD34"))
	n[modules+"/kernel/drivers/net/own-driver.ko.xz"] = packed(t, ".xz", module("version=7"))
	n["usr/local/bin/kubeadm"] = program(t, "kubeadm", "k8s.io/component-base", "version:gitVersion", "v1.29.4")
	n["usr/bin/crictl"] = program(t, "crictl", "sigs.k8s.io/cri-tools", "pkg/version:Version", "v1.29.0", "-trimpath")
	return n
}

// partitioned puts a boot and a root file system into a disk with a GPT, as cloud images have it.
func partitioned(t *testing.T, content map[string]string) string {
	t.Helper()
	boot, root := map[string]string{}, map[string]string{"etc/fstab": "LABEL=root / ext4 defaults 0 1\nLABEL=BOOT /boot ext4 defaults 0 2\n", "boot/efi/x": ""}
	for name, text := range content {
		if rest, ok := strings.CutPrefix(name, "boot/"); ok {
			boot[rest] = text
		} else {
			root[name] = text
		}
	}
	disk := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, 96<<20); err != nil {
		t.Fatal(err)
	}
	table := write(t, "table", []byte("label: gpt\nstart=2048, size=16384, name=boot\nstart=18432, name=system\n"))
	run(t, "sh", "-c", "PATH=$PATH:/sbin:/usr/sbin sfdisk -q "+disk+" < "+table)
	f, err := os.OpenFile(disk, os.O_WRONLY, 0) //nolint:gosec // a file of this test
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at, fs := range map[int64]string{
		2048 * 512:  fileSystem(t, files(t, boot), "8M", "-t", "ext4", "-L", "BOOT"),
		18432 * 512: fileSystem(t, files(t, root), "80M", "-t", "ext4", "-L", "root"),
	} {
		if _, err := f.WriteAt(read(t, fs), at); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

func TestAnImageIsReadWhateverItIsKeptIn(t *testing.T) {
	t.Parallel()
	raw := partitioned(t, richNode(t, kernel, "1.7.12-1"))
	look := image.Options{Packages: []string{"openssl", "absent"}, Modules: []string{"own_driver", "nowhere"}, Digests: []string{"md5"}}
	want := mustInspect(t, raw, look)
	for name, options := range map[string][]string{
		"version 2":                    {"-O", "qcow2", "-o", "compat=0.10"},
		"version 3":                    {"-O", "qcow2"},
		"zlib":                         {"-O", "qcow2", "-c"},
		"zstd":                         {"-O", "qcow2", "-c", "-o", "compression_type=zstd"},
		"small clusters":               {"-O", "qcow2", "-o", "cluster_size=512"},
		"large clusters":               {"-O", "qcow2", "-c", "-o", "cluster_size=2M"},
		"raw":                          {"-O", "raw"},
		"large clusters, not packed":   {"-O", "qcow2", "-o", "cluster_size=2M"},
		"small clusters, zstd, packed": {"-O", "qcow2", "-c", "-o", "cluster_size=4k,compression_type=zstd"},
	} {
		for _, gz := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, gzip %v", name, gz), func(t *testing.T) {
				t.Parallel()
				to := filepath.Join(t.TempDir(), "disk.img")
				run(t, "qemu-img", slices.Concat([]string{"convert", "-f", "raw"}, options, []string{raw, to})...)
				if gz {
					to = write(t, "disk.img.gz", []byte(packed(t, ".gz", string(read(t, to)))))
				}
				got := mustInspect(t, to, look)
				file := read(t, to)
				if sum := sha256.Sum256(file); got.Digests["sha256"] != hex.EncodeToString(sum[:]) || len(got.Digests["md5"]) != 32 || got.SizeBytes != int64(len(file)) {
					t.Errorf("digests %v and size %d are not those of the file", got.Digests, got.SizeBytes)
				}
				if (got.Compression == "gzip") != gz || got.Format != options[1] {
					t.Errorf("format %s, compression %q", got.Format, got.Compression)
				}
				got.Source, got.SizeBytes, got.Digests, got.Compression, got.Format, got.FormatDetail = want.Source, want.SizeBytes, want.Digests, "", "raw", ""
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestTheReportSaysWhatNodesWillRun(t *testing.T) {
	t.Parallel()
	r := mustInspect(t, partitioned(t, richNode(t, kernel, "1.7.12-1")), image.Options{Packages: []string{"openssl", "absent"}, Modules: []string{"own-driver", "nowhere"}})
	if r.PartitionTable != "gpt" || len(r.Partitions) != 2 || r.Partitions[0].Mount != "/boot" || r.Partitions[1].Mount != "/" || r.Partitions[1].Content != "ext4" {
		t.Errorf("partitions: %s %+v", r.PartitionTable, r.Partitions)
	}
	if r.VirtualSizeBytes != 96<<20 || r.OS == nil || r.OS.PrettyName != "Ubuntu 22.04.4 LTS" || r.OS.Path != "/usr/lib/os-release" || r.Architecture != "amd64" {
		t.Errorf("disk %d, os %+v, architecture %s", r.VirtualSizeBytes, r.OS, r.Architecture)
	}
	kernels := []image.Kernel{
		{Release: "5.15.0-9-generic", Path: "/boot/vmlinuz-5.15.0-9-generic"},
		{Release: kernel, Path: "/boot/vmlinuz-" + kernel, Modules: "/usr/lib/modules/" + kernel, Default: true, DefaultBy: "the first entry of /boot/grub/grub.cfg"},
	}
	components := []image.Component{
		{Name: "containerd", Version: "1.7.12", Source: "package", Package: "containerd.io 1.7.12-1"},
		{Name: "runc", Version: "1.1.12", Source: "package", Package: "runc 1.1.12-0ubuntu2~22.04.1"},
		{Name: "kubelet", Version: "v1.29.3", Source: "package", Package: "kubelet 1.29.3-1.1"},
		{Name: "kubeadm", Version: "v1.29.4", Source: "build info", Path: "/usr/local/bin/kubeadm"},
		{Name: "crictl", Version: "v1.29.0", Source: "string", Path: "/usr/bin/crictl"},
	}
	modules := []image.Module{
		{Name: "i40e", Kernel: kernel, Path: "/usr/lib/modules/" + kernel + "/updates/dkms/i40e.ko.zst", Version: "2.25.9", SourceVersion: "AB12", VersionMagic: kernel + " SMP mod_unload"},
		{Name: "ice", Kernel: kernel, Path: "/usr/lib/modules/" + kernel + "/kernel/drivers/net/ice.ko.gz", SourceVersion: "CD34"},
		{Name: "own_driver", Kernel: kernel, Path: "/usr/lib/modules/" + kernel + "/kernel/drivers/net/own-driver.ko.xz", Version: "7"},
	}
	unread := []image.Unread{
		{What: "package absent", Why: "it is not installed"},
		{What: "module nowhere", Why: "kernel " + kernel + " has no such module as a file"},
	}
	packages := []image.Package{{Name: "openssl", Version: "3.0.2-0ubuntu1.15", Architecture: "amd64", Database: "dpkg"}}
	for what, d := range map[string]string{
		"kernels": cmp.Diff(kernels, r.Kernels), "components": cmp.Diff(components, r.Components), "modules": cmp.Diff(modules, r.Modules),
		"unread": cmp.Diff(unread, r.Unread), "packages": cmp.Diff(packages, r.Packages),
	} {
		if d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	c := r.Contents()
	if c.ContainerRuntimeVersion != "containerd://1.7.12" || c.KubeletVersion != "v1.29.3" || c.KernelVersion != kernel || c.OSImage != "Ubuntu 22.04.4 LTS" || c.Packages["module/i40e"] != "2.25.9" {
		t.Errorf("contents: %+v", c)
	}
}

func TestEveryKindOfExtFileSystemIsRead(t *testing.T) {
	t.Parallel()
	content := node(kernel, "1.7.12-1")
	delete(content, "usr/lib/modules/"+kernel+"/updates/dkms/i40e.ko.zst")
	// A large folder gets an index, a large file blocks of blocks; both come before what is looked for.
	for i := range 700 {
		content[fmt.Sprintf("etc/many-%04d-%s", i, strings.Repeat("x", 100))] = "tiny"
	}
	var status strings.Builder
	for i := range 12000 {
		status.WriteString(stanza(fmt.Sprintf("p%05d", i), "1.0", "install ok installed"))
	}
	content["var/lib/dpkg/status"] = status.String() + content["var/lib/dpkg/status"]
	content["usr/lib/modules/"+kernel+"/kernel/i40e.ko"] = module("version=1")
	dir := files(t, content)
	for name, options := range map[string][]string{
		"ext2 with small blocks": {"-t", "ext2", "-b", "1024"},
		"ext2 as it first was":   {"-t", "ext2", "-b", "4096", "-O", "none,filetype"},
		"ext3":                   {"-t", "ext3"},
		"ext4":                   {"-t", "ext4"},
		"ext4 64bit meta_bg":     {"-t", "ext4", "-O", "64bit,meta_bg,^resize_inode"},
		"ext4 inline data":       {"-t", "ext4", "-O", "inline_data", "-I", "256"},
		"ext4 large inodes":      {"-t", "ext4", "-O", "inline_data", "-I", "1024", "-b", "1024"},
		"ext4 without extents":   {"-t", "ext4", "-O", "^extents,^64bit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustInspect(t, fileSystem(t, dir, "64M", options...), image.Options{AllPackages: true})
			if r.PackageCount != 12004 || len(r.Packages) != 12004 || r.Version("containerd") != "1.7.12" || r.OS == nil || len(r.Modules) != 1 {
				t.Errorf("%d packages, containerd %q, os %v, modules %v, unread %v", r.PackageCount, r.Version("containerd"), r.OS, r.Modules, r.Unread)
			}
			if want, _, _ := strings.Cut(name, " "); r.Partitions[0].Content != want || r.DefaultKernel() == nil || len(r.Unread) != 0 {
				t.Errorf("content %s, kernels %v, unread %v", r.Partitions[0].Content, r.Kernels, r.Unread)
			}
		})
	}
}

func TestTheKernelThatBoots(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		"etc/os-release": osRelease, "boot/vmlinuz-5.14.0-9.el9": "x", "boot/vmlinuz-5.14.0-70.el9": "x", "boot/vmlinuz-0-rescue-1": "x", "lib/modules/5.14.0-99.el9/modules.dep": "",
	}
	entry := "title x\nlinux /vmlinuz-"
	for name, tc := range map[string]struct {
		more     map[string]string
		want, by string
	}{
		"is the newest that has a file":       {nil, "5.14.0-70.el9", "it is the newest"},
		"is where the link leads":             {map[string]string{"vmlinuz": "-> boot/vmlinuz-5.14.0-9.el9"}, "5.14.0-9.el9", "the link /vmlinuz"},
		"is the first of grub":                {map[string]string{"boot/grub2/grub.cfg": "linuxefi /boot/vmlinuz-5.14.0-9.el9 x\nlinuxefi /boot/vmlinuz-5.14.0-70.el9"}, "5.14.0-9.el9", "the first entry of /boot/grub2/grub.cfg"},
		"is what grub saved among entries":    {map[string]string{"boot/grub2/grubenv": "saved_entry=a", "boot/loader/entries/a.conf": entry + "5.14.0-9.el9", "boot/loader/entries/b.conf": entry + "5.14.0-70.el9"}, "5.14.0-9.el9", "grub's saved entry"},
		"is the newest entry, by its numbers": {map[string]string{"boot/loader/entries/a.conf": entry + "5.14.0-9.el9", "boot/loader/entries/b.conf": entry + "5.14.0-70.el9"}, "5.14.0-70.el9", "the newest entry in /boot/loader/entries"},
		"is not one that is gone":             {map[string]string{"boot/grub/grub.cfg": "linux /boot/vmlinuz-4.0"}, "5.14.0-70.el9", "it is the newest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := maps.Clone(base)
			maps.Copy(content, tc.more)
			r := mustInspect(t, fileSystem(t, files(t, content), "8M"), image.Options{})
			k := r.DefaultKernel()
			if k == nil || k.Release != tc.want || k.DefaultBy != tc.by || len(r.Kernels) != 3 {
				t.Errorf("got %+v of %+v", k, r.Kernels)
			}
		})
	}
}

func TestADifferenceSaysWhatARollChanges(t *testing.T) {
	t.Parallel()
	old, next := richNode(t, kernel, "1.7.12-1"), richNode(t, "5.15.0-118-generic", "1.7.20-1")
	next["var/lib/dpkg/status"] = strings.Replace(next["var/lib/dpkg/status"], "3.0.2-0ubuntu1.15", "3.0.2-0ubuntu1.18", 1) + stanza("new", "2", "install ok installed")
	modulePath := "usr/lib/modules/5.15.0-118-generic/updates/dkms/i40e.ko.zst"
	next[modulePath] = packed(t, ".zst", module("version=2.26.8"))
	look := image.Options{AllPackages: true, NoDigest: true}
	a := mustInspect(t, fileSystem(t, files(t, old), "64M"), look)
	b := mustInspect(t, fileSystem(t, files(t, next), "72M"), look)
	want := []image.Change{
		{Subject: "kernel", Name: "kernel", From: kernel, To: "5.15.0-118-generic"},
		{Subject: "component", Name: "containerd", From: "1.7.12", To: "1.7.20"},
		{Subject: "module", Name: "i40e", From: "2.25.9", To: "2.26.8"},
		{Subject: "package", Name: "containerd.io", From: "1.7.12-1", To: "1.7.20-1"},
		{Subject: "package", Name: "new", To: "2"},
		{Subject: "package", Name: "openssl", From: "3.0.2-0ubuntu1.15", To: "3.0.2-0ubuntu1.18"},
		{Subject: "disk", Name: "size of the disk in bytes", From: "67108864", To: "75497472"},
	}
	if d := cmp.Diff(want, image.Diff(a, b).Changes); d != "" {
		t.Error(d)
	}
	if same := image.Diff(a, a).Changes; len(same) != 0 {
		t.Errorf("an image differs from itself: %v", same)
	}
}

func TestWhatIsNotKnownOfOneImageIsNotCalledAChange(t *testing.T) {
	t.Parallel()
	look := image.Options{AllPackages: true, NoDigest: true}
	a := mustInspect(t, fileSystem(t, files(t, richNode(t, kernel, "1.7.12-1")), "64M"), look)
	b := mustInspect(t, fileSystem(t, files(t, map[string]string{"etc/passwd": "x"}), "64M"), look)
	d := image.Diff(a, b)
	if len(d.Changes) != 0 {
		t.Errorf("changes: %v", d.Changes)
	}
	for _, subject := range []string{"os", "kernel", "component", "module", "package"} {
		if !slices.Contains(d.Unread, image.Unread{What: b.Source + ": " + subject, Why: "it is not known there, so it was not compared"}) {
			t.Errorf("%s is not named: %v", subject, d.Unread)
		}
	}
}
