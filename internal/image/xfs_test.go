// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/image"
)

// prototype describes a folder to mkfs.xfs, which then needs no mount to fill a file system.
func prototype(t *testing.T, b *strings.Builder, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			fmt.Fprintf(b, "%s d--755 0 0\n", e.Name())
			prototype(t, b, at)
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(b, "%s l--777 0 0 %s\n", e.Name(), target)
		default:
			fmt.Fprintf(b, "%s ---644 0 0 %s\n", e.Name(), at)
		}
	}
	b.WriteString("$\n")
}

func TestXFSIsRead(t *testing.T) {
	t.Parallel()
	content := richNode(t, kernel, "1.7.12-1")
	for i := range 700 {
		content[fmt.Sprintf("etc/many-%04d-%s", i, strings.Repeat("x", 100))] = "tiny"
	}
	var status strings.Builder
	for i := range 12000 {
		status.WriteString(stanza(fmt.Sprintf("p%05d", i), "1.0", "install ok installed"))
	}
	content["var/lib/dpkg/status"] = status.String() + content["var/lib/dpkg/status"]
	content["bin/bash"] = "-> " + strings.Repeat("./", 400) + "sh" // a link that does not fit into its inode
	dir := files(t, content)
	var proto strings.Builder
	proto.WriteString("/dev/null\n0 0\nd--755 0 0\n")
	prototype(t, &proto, dir)
	described := write(t, "proto", []byte(proto.String()))
	for name, options := range map[string][]string{
		"version 5":     {"-m", "crc=1"},
		"version 4":     {"-m", "crc=0"},
		"small blocks":  {"-b", "size=1024", "-m", "crc=1"},
		"large folders": {"-n", "size=16384"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := filepath.Join(t.TempDir(), "disk.raw")
			run(t, "mkfs.xfs", append(append([]string{"-q", "-p", described}, options...), "-d", "name="+disk+",file=1,size=320m")...)
			r := mustInspect(t, disk, image.Options{NoDigest: true})
			if r.PackageCount != 12004 || r.Version("containerd") != "1.7.12" || r.Version("kubeadm") != "v1.29.4" || r.OS == nil || r.Architecture != "amd64" {
				t.Errorf("%d packages, %+v, os %v, architecture %s", r.PackageCount, r.Components, r.OS, r.Architecture)
			}
			if r.Partitions[0].Content != "xfs" || r.DefaultKernel() == nil || len(r.Modules) != 2 || len(r.Unread) != 0 {
				t.Errorf("content %s, kernels %v, modules %v, unread %v", r.Partitions[0].Content, r.Kernels, r.Modules, r.Unread)
			}
			cut := write(t, "cut.raw", read(t, disk)[:200<<20])
			_, err := inspect(t, cut, image.Options{})
			if err == nil {
				t.Error("a part was taken for the whole")
			} else if got := reason(t, cut, err); got != image.ReasonTruncated {
				t.Error(err)
			}
		})
	}
}
