// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Change is one thing that differs between two images. From is empty for what comes, To for what goes.
type Change struct {
	// Subject is os, kernel, component, package, module or disk.
	Subject string `json:"subject"`
	Name    string `json:"name"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
}

// Difference is what a roll from one image to the other changes.
type Difference struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Changes are in the order of their weight: operating system, kernel, components, modules, packages, disk.
	Changes []Change `json:"changes"`
	// Unread is what could not be read in either image, and so was not compared.
	Unread []Unread `json:"unread,omitempty"`
}

// Diff compares two reports. For packages to be compared, both must have been made with AllPackages.
func Diff(a, b *Report) *Difference {
	d := &Difference{From: a.Source, To: b.Source, Changes: []Change{}}
	fa, fb := a.facts(), b.facts()
	keys := slices.Sorted(maps.Keys(fa))
	keys = slices.AppendSeq(keys, maps.Keys(fb))
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, subject := range []string{"os", "kernel", "component", "module", "package", "disk"} {
		if unknown := slices.DeleteFunc([]*Report{a, b}, func(r *Report) bool { return r.knows(subject) }); len(unknown) > 0 {
			d.Unread = append(d.Unread, Unread{What: unknown[0].Source + ": " + subject, Why: "it is not known there, so it was not compared"})
			continue
		}
		for _, key := range keys {
			kind, name, _ := strings.Cut(key, "\x00")
			if kind == subject && fa[key] != fb[key] {
				d.Changes = append(d.Changes, Change{Subject: subject, Name: name, From: fa[key], To: fb[key]})
			}
		}
	}
	for _, r := range []*Report{a, b} {
		for _, u := range r.Unread {
			d.Unread = append(d.Unread, Unread{What: r.Source + ": " + u.What, Why: u.Why})
		}
	}
	return d
}

// knows tells whether what is not in the report is not in the image either.
func (r *Report) knows(subject string) bool {
	switch subject {
	case "os":
		return r.OS != nil
	case "kernel", "module":
		return r.DefaultKernel() != nil
	case "package":
		return len(r.PackageDatabases) > 0
	case "component":
		return len(r.PackageDatabases) > 0 || len(r.Components) > 0
	}
	return true
}

// facts are what can be compared, by subject and name.
func (r *Report) facts() map[string]string {
	out := map[string]string{}
	add := func(subject, name, value string) {
		if value == "" {
			return
		}
		key := subject + "\x00" + name
		if old := out[key]; old != "" && old != value { // two versions of one package side by side
			value = old + ", " + value
		}
		out[key] = value
	}
	c := r.Contents()
	add("os", "operating system", c.OSImage)
	add("os", "architecture", r.Architecture)
	add("kernel", "kernel", c.KernelVersion)
	for _, k := range r.Components {
		add("component", k.Name, k.Version)
	}
	for _, p := range r.Packages {
		add("package", p.Name, p.Version)
	}
	for _, m := range r.Modules {
		if m.Kernel == c.KernelVersion {
			add("module", m.Name, m.says())
		}
	}
	add("disk", "format", r.Format)
	add("disk", "size of the disk in bytes", strconv.FormatInt(r.VirtualSizeBytes, 10))
	return out
}
