// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/image"
	"github.com/capstan-dev/capstan/internal/phrase"
)

// Image shows what is in a disk image.
type Image struct{ Report *image.Report }

// Object returns the report for programs.
func (d *Image) Object() any {
	return struct {
		meta
		*image.Report
	}{meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ImageReport"}, d.Report}
}

// Text returns the screen: what nodes will run first, then where it was found, at last what could not be read.
func (d *Image) Text(s Style) string {
	r, t := d.Report, newTable()
	t.rows = nil
	row := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	row("Image", r.Source)
	row("Size", fmt.Sprintf("%s (%d bytes)", bytesText(r.SizeBytes), r.SizeBytes))
	for _, name := range image.Algorithms() {
		row(name, r.Digests[name])
	}
	row("Format", strings.Join(slices.DeleteFunc([]string{r.Format, r.FormatDetail, packedText(r.Compression)}, func(p string) bool { return p == "" }), ", "))
	row("Disk", fmt.Sprintf("%s (%d bytes)", bytesText(r.VirtualSizeBytes), r.VirtualSizeBytes))
	if r.OS != nil {
		row("OS", r.OS.PrettyName)
	}
	row("Architecture", r.Architecture)
	for _, k := range r.Kernels {
		row("Kernel", kernelText(&k))
	}
	for _, c := range r.Components {
		row(c.Name, componentText(&c))
	}
	if len(r.PackageDatabases) > 0 {
		row("Packages", fmt.Sprintf("%s (%s)", phrase.Count(r.PackageCount, "package"), strings.Join(r.PackageDatabases, ", ")))
	}
	return t.String() + d.partitions() + d.packages() + d.modules() + headed(s.warn("Note:"), r.Notes) + unread(s, r.Unread)
}

func packedText(by string) string {
	if by == "" {
		return ""
	}
	return "packed with " + by
}

func kernelText(k *image.Kernel) string {
	text := k.Release
	if k.Default {
		text += "   boots: " + k.DefaultBy
	}
	if k.Path == "" {
		text += "   only modules, no kernel"
	}
	if k.Modules == "" {
		text += "   without modules"
	}
	return text
}

func componentText(c *image.Component) string {
	from := c.Path
	switch {
	case c.Source == "package":
		from = "package " + c.Package
	case c.Package != "":
		from += ", package " + c.Package
	}
	if c.Source == "string" {
		from += ", as written in the program"
	}
	return c.Version + "   " + from
}

func (d *Image) partitions() string {
	t := newTable("PARTITION", "SIZE", "CONTENT", "LABEL", "MOUNT")
	for _, p := range d.Report.Partitions {
		number := fmt.Sprint(p.Number)
		if p.Number == 0 {
			number = "whole disk"
		}
		label := p.FileSystemLabel
		if label == "" {
			label = p.Label
		}
		t.add(number, bytesText(p.SizeBytes), p.Content, label, p.Mount)
	}
	return "\n" + t.String()
}

func (d *Image) packages() string {
	if len(d.Report.Packages) == 0 {
		return ""
	}
	t := newTable("PACKAGE", "VERSION", "ARCHITECTURE")
	for _, p := range d.Report.Packages {
		t.add(p.Name, p.Version, p.Architecture)
	}
	return "\n" + t.String()
}

func (d *Image) modules() string {
	if len(d.Report.Modules) == 0 {
		return ""
	}
	t := newTable("MODULE", "KERNEL", "VERSION", "SRCVERSION", "VERMAGIC")
	for _, m := range d.Report.Modules {
		t.add(m.Name, m.Kernel, m.Version, m.SourceVersion, m.VersionMagic)
	}
	return "\n" + t.String()
}

func headed(head string, texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(head + " " + text + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}

func unread(s Style, list []image.Unread) string {
	texts := make([]string, len(list))
	for i, u := range list {
		texts[i] = u.What + ": " + u.Why
	}
	return headed(s.warn("Not read:"), texts)
}

// bytesText is a size as people say it.
func bytesText(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	size, i := float64(n), 0
	for size >= 1024 && i < len(units)-1 {
		size, i = size/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + units[i]
}

// ImageDiff shows what a roll from one image to another changes.
type ImageDiff struct{ Difference *image.Difference }

// Object returns the difference for programs.
func (d *ImageDiff) Object() any {
	return struct {
		meta
		*image.Difference
	}{meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ImageDifference"}, d.Difference}
}

// Text returns one line for each change.
func (d *ImageDiff) Text(s Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "From %s\nTo   %s\n\n", d.Difference.From, d.Difference.To)
	if len(d.Difference.Changes) == 0 {
		b.WriteString("Nothing that was read differs\n")
	}
	for _, c := range d.Difference.Changes {
		name := c.Name
		if c.Subject == "package" || c.Subject == "module" {
			name = c.Subject + " " + name
		}
		switch {
		case c.From == "":
			fmt.Fprintf(&b, "%s %s comes\n", name, c.To)
		case c.To == "":
			fmt.Fprintf(&b, "%s %s goes\n", name, c.From)
		default:
			fmt.Fprintf(&b, "%s %s to %s\n", name, c.From, c.To)
		}
	}
	b.WriteString(unread(s, d.Difference.Unread))
	return b.String()
}

// Download returns what shows the progress of a download on a terminal.
func Download(w io.Writer, source string) func(done, total int64) {
	shown := int64(-1)
	return func(done, total int64) {
		step := done >> 24 // every 16 MiB
		if step == shown && done != total {
			return
		}
		shown = step
		of, end := "", ""
		if total > 0 {
			of = " of " + bytesText(total)
		}
		if done == total {
			end = "\n"
		}
		fmt.Fprintf(w, "\r%s: %s%s \x1b[K%s", source, bytesText(done), of, end)
	}
}
