// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/image"
)

func TestAnImageOnTheScreen(t *testing.T) {
	t.Parallel()
	r := &image.Report{
		Source: "node.qcow2", SizeBytes: 1 << 30, Digests: map[string]string{"sha256": "aa"}, Compression: "gzip", Format: "qcow2", FormatDetail: "version 3",
		VirtualSizeBytes: 3 << 29, OS: &image.OS{PrettyName: "Ubuntu 22.04"}, Architecture: "amd64",
		Kernels: []image.Kernel{{Release: "5.15.0-105", Path: "/boot/vmlinuz-5.15.0-105", Modules: "/lib/modules/5.15.0-105", Default: true, DefaultBy: "it is the newest"}},
		Components: []image.Component{
			{Name: "containerd", Version: "1.7.12", Source: "package", Package: "containerd.io 1.7.12-1"},
			{Name: "kubelet", Version: "v1.29.3", Source: "string", Path: "/usr/bin/kubelet"},
		},
		PackageDatabases: []string{"dpkg"}, PackageCount: 1, Partitions: []image.Partition{{Number: 1, SizeBytes: 512, Content: "ext4", Mount: "/"}},
		Packages: []image.Package{{Name: "openssl", Version: "3.0.2", Architecture: "amd64"}},
		Modules:  []image.Module{{Name: "i40e", Kernel: "5.15.0-105", Version: "2.25.9"}},
		Notes:    []string{"something"}, Unread: []image.Unread{{What: "partition 2", Why: "xfs"}},
	}
	want := `Image         node.qcow2
Size          1 GiB (1073741824 bytes)
sha256        aa
Format        qcow2, version 3, packed with gzip
Disk          1.5 GiB (1610612736 bytes)
OS            Ubuntu 22.04
Architecture  amd64
Kernel        5.15.0-105   boots: it is the newest
containerd    1.7.12   package containerd.io 1.7.12-1
kubelet       v1.29.3   /usr/bin/kubelet, as written in the program
Packages      1 package (dpkg)

PARTITION  SIZE       CONTENT  LABEL  MOUNT
1          512 bytes  ext4     -      /

PACKAGE  VERSION  ARCHITECTURE
openssl  3.0.2    amd64

MODULE  KERNEL      VERSION  SRCVERSION  VERMAGIC
i40e    5.15.0-105  2.25.9   -           -

Note: something

Not read: partition 2: xfs
`
	if d := cmp.Diff(want, (&Image{Report: r}).Text(Style{})); d != "" {
		t.Error(d)
	}
}

func TestADifferenceOfImagesOnTheScreen(t *testing.T) {
	t.Parallel()
	d := &image.Difference{From: "a", To: "b", Changes: []image.Change{
		{Subject: "kernel", Name: "kernel", From: "5.15.0-105", To: "5.15.0-118"}, {Subject: "package", Name: "x", To: "2"}, {Subject: "module", Name: "i40e", From: "1"},
	}}
	want := "From a\nTo   b\n\nkernel 5.15.0-105 to 5.15.0-118\npackage x 2 comes\nmodule i40e 1 goes\n"
	if diff := cmp.Diff(want, (&ImageDiff{Difference: d}).Text(Style{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("From a\nTo   a\n\nNothing that was read differs\n", (&ImageDiff{Difference: &image.Difference{From: "a", To: "a"}}).Text(Style{})); diff != "" {
		t.Error(diff)
	}
}
