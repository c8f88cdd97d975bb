// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/image"
)

// TestADebianThatDebootstrapMade takes a minute, root, and a mirror, so it runs only where CAPSTAN_DEBOOTSTRAP names one.
func TestADebianThatDebootstrapMade(t *testing.T) {
	t.Parallel()
	mirror := os.Getenv("CAPSTAN_DEBOOTSTRAP")
	if mirror == "" {
		t.Skip("CAPSTAN_DEBOOTSTRAP names no Debian mirror")
	}
	dir := filepath.Join(t.TempDir(), "tree")
	run(t, "debootstrap", "--variant=minbase", "--include=linux-image-amd64,containerd,runc", "bookworm", dir, mirror)
	disk := filepath.Join(t.TempDir(), "disk.qcow2")
	run(t, "qemu-img", "convert", "-O", "qcow2", "-c", "-o", "compression_type=zstd", fileSystem(t, dir, "2G", "-t", "ext4"), disk)
	r := mustInspect(t, disk, image.Options{Packages: []string{"bash"}, Modules: []string{"i40e"}})
	k := r.DefaultKernel()
	if r.OS == nil || !strings.HasPrefix(r.OS.PrettyName, "Debian GNU/Linux 12") || k == nil || !strings.HasPrefix(k.Release, "6.1.") || r.Architecture != "amd64" {
		t.Errorf("os %v, kernels %v, architecture %s", r.OS, r.Kernels, r.Architecture)
	}
	for _, c := range r.Components {
		if c.Package == "" || c.Source != "string" || !strings.HasPrefix(strings.Fields(c.Package)[1], c.Version) {
			t.Errorf("component %+v", c)
		}
	}
	drivers := map[string]string{}
	for _, m := range r.Modules {
		drivers[m.Name] = m.VersionMagic
	}
	if len(r.Components) != 2 || len(r.Packages) != 1 || k != nil && !strings.HasPrefix(drivers["i40e"], k.Release+" ") {
		t.Errorf("components %v, packages %v, drivers %v", r.Components, r.Packages, drivers)
	}
	if len(r.Unread) != 1 || r.Unread[0].What != "kubelet" {
		t.Errorf("unread: %v", r.Unread)
	}
}
