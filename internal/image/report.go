// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Report is what is in an image. Its JSON names are stable; a field that is empty was not found, and where it was looked for
// in vain, Unread says so.
type Report struct {
	// Source is the file or the address as it was given.
	Source string `json:"source"`
	// SizeBytes is the length of the file.
	SizeBytes int64 `json:"sizeBytes"`
	// Digests are the digests of the file in hexadecimal by algorithm: sha256 always, sha512 and md5 on demand.
	Digests map[string]string `json:"digests,omitempty"`
	// Compression is what the file as a whole is packed with: gzip, or nothing.
	Compression string `json:"compression,omitempty"`
	// Format is qcow2 or raw.
	Format string `json:"format"`
	// FormatDetail is the version of the format and how clusters are compressed, for people.
	FormatDetail string `json:"formatDetail,omitempty"`
	// VirtualSizeBytes is the size of the disk; a host's root disk must not be smaller.
	VirtualSizeBytes int64 `json:"virtualSizeBytes"`
	// PartitionTable is gpt, mbr, or empty for a bare file system.
	PartitionTable string      `json:"partitionTable,omitempty"`
	Partitions     []Partition `json:"partitions"`
	// OS is the operating system, nil if no file system that can be read has one.
	OS *OS `json:"os,omitempty"`
	// Architecture is amd64, arm64 and so on, as the programs in the image tell.
	Architecture string   `json:"architecture,omitempty"`
	Kernels      []Kernel `json:"kernels,omitempty"`
	// Components are the container runtime, Kubernetes and their tools.
	Components []Component `json:"components,omitempty"`
	// PackageDatabases are the kinds of package databases: dpkg, rpm.
	PackageDatabases []string `json:"packageDatabases,omitempty"`
	// PackageCount is how many packages are installed.
	PackageCount int `json:"packageCount"`
	// Packages are those that were asked for.
	Packages []Package `json:"packages,omitempty"`
	// Modules are kernel modules: those that were asked for, and usual drivers of network cards.
	Modules []Module `json:"modules,omitempty"`
	// Notes are contradictions and other things worth knowing.
	Notes []string `json:"notes,omitempty"`
	// Unread is everything that was looked for and could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// Partition is a part of the disk.
type Partition struct {
	// Number counts from 1; 0 is a disk without a partition table.
	Number     int   `json:"number"`
	StartBytes int64 `json:"startBytes"`
	SizeBytes  int64 `json:"sizeBytes"`
	// Type is the type in the partition table: a GUID, or a number such as 0x83.
	Type  string `json:"type,omitempty"`
	Label string `json:"label,omitempty"`
	UUID  string `json:"uuid,omitempty"`
	// Content is what was found at its beginning: ext4, xfs, vfat, luks, lvm and so on.
	Content string `json:"content,omitempty"`
	// FileSystemLabel and FileSystemUUID are the file system's own.
	FileSystemLabel string `json:"fileSystemLabel,omitempty"`
	FileSystemUUID  string `json:"fileSystemUUID,omitempty"`
	// Mount is where the image mounts it.
	Mount string `json:"mount,omitempty"`
}

// OS is the operating system as os-release has it.
type OS struct {
	ID         string `json:"id,omitempty"`
	Name       string `json:"name,omitempty"`
	Version    string `json:"version,omitempty"`
	VersionID  string `json:"versionID,omitempty"`
	PrettyName string `json:"prettyName,omitempty"`
	// Path is the file that says so.
	Path string `json:"path"`
}

// Kernel is a kernel in the image.
type Kernel struct {
	// Release is what `uname -r` prints on it.
	Release string `json:"release"`
	// Path is its file; empty if there are only modules for it.
	Path string `json:"path,omitempty"`
	// Modules is the folder of its modules; empty if there is none.
	Modules string `json:"modules,omitempty"`
	// Default marks the one that boots, and DefaultBy what says so.
	Default   bool   `json:"default,omitempty"`
	DefaultBy string `json:"defaultBy,omitempty"`
}

// Component is a program that nodes need.
type Component struct {
	// Name is containerd, runc, kubelet, kubeadm, kubectl, crictl, cri-o, crun or cni-plugins.
	Name string `json:"name"`
	// Version is the version as the component reports it, without revision of the package.
	Version string `json:"version"`
	// Source says what the version was read from: build info, string (in the program) or package.
	Source string `json:"source"`
	// Path is the program; empty if only the package was found.
	Path string `json:"path,omitempty"`
	// Package is name and version of the package; empty if the program was put there without one.
	Package string `json:"package,omitempty"`
}

// Package is an installed package.
type Package struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Architecture string `json:"architecture,omitempty"`
	// Database is dpkg or rpm.
	Database string `json:"database"`
}

// Module is a kernel module.
type Module struct {
	Name string `json:"name"`
	// Kernel is the release that it is for.
	Kernel string `json:"kernel"`
	Path   string `json:"path"`
	// Version, SourceVersion and VersionMagic are what `modinfo` calls version, srcversion and vermagic.
	Version       string `json:"version,omitempty"`
	SourceVersion string `json:"srcversion,omitempty"`
	VersionMagic  string `json:"vermagic,omitempty"`
}

// Unread is something that could not be read.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// unread notes that something could not be read.
func (r *Report) unread(what string, err error) {
	r.Unread = append(r.Unread, Unread{What: what, Why: clean(err.Error())})
}

// DefaultKernel returns the kernel that boots, nil if none is known.
func (r *Report) DefaultKernel() *Kernel {
	for i := range r.Kernels {
		if r.Kernels[i].Default {
			return &r.Kernels[i]
		}
	}
	return nil
}

// Version returns the version of a component, "" if it is not there.
func (r *Report) Version(component string) string {
	for _, c := range r.Components {
		if c.Name == component {
			return c.Version
		}
	}
	return ""
}

// Contents returns what nodes made from the image will report, in the words of the catalog.
func (r *Report) Contents() v1alpha1.NodeImageContents {
	c := v1alpha1.NodeImageContents{KubeletVersion: r.Version("kubelet"), Architecture: r.Architecture}
	if r.OS != nil {
		c.OSImage = r.OS.PrettyName
	}
	if k := r.DefaultKernel(); k != nil {
		c.KernelVersion = k.Release
	}
	for _, runtime := range []string{"containerd", "cri-o"} {
		if v := r.Version(runtime); v != "" && c.ContainerRuntimeVersion == "" {
			c.ContainerRuntimeVersion = runtime + "://" + strings.TrimPrefix(v, "v")
		}
	}
	c.Packages = map[string]string{}
	for _, k := range r.Components {
		c.Packages[k.Name] = k.Version
	}
	for _, p := range r.Packages {
		c.Packages[p.Name] = p.Version
	}
	for _, m := range r.Modules {
		if k := r.DefaultKernel(); k != nil && k.Release == m.Kernel {
			c.Packages["module/"+m.Name] = m.says()
		}
	}
	return c
}

// says is the module's version, or the nearest that there is to it.
func (m Module) says() string {
	switch {
	case m.Version != "":
		return m.Version
	case m.SourceVersion != "":
		return "srcversion " + m.SourceVersion
	}
	return m.Kernel
}
