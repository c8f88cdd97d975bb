// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"path"
	"slices"
	"strings"
)

const maxText = 4 << 20

func (l *looker) os() {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		b, where, err := l.tree.read(name, maxText)
		if err != nil {
			l.tried(name, err)
			continue
		}
		v := assignments(string(b))
		l.report.OS = &OS{ID: v["ID"], Name: v["NAME"], Version: v["VERSION"], VersionID: v["VERSION_ID"], PrettyName: v["PRETTY_NAME"], Path: where}
		return
	}
	l.report.unread("operating system", errors.New("there is neither /etc/os-release nor /usr/lib/os-release"))
}

// assignments reads KEY=value lines as a shell would, without expansion.
func assignments(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		out[key] = clean(strings.NewReplacer(`\"`, `"`, `\$`, `$`, "\\`", "`", `\\`, `\`).Replace(value))
	}
	return out
}

// kernels finds the kernels in /boot and those that only have modules.
func (l *looker) kernels() {
	byRelease := map[string]*Kernel{}
	names, err := l.tree.names("/boot")
	l.tried("/boot", err)
	for _, n := range names {
		if release, ok := strings.CutPrefix(n, "vmlinuz-"); ok && release != "" && !strings.Contains(release, "rescue") {
			byRelease[release] = &Kernel{Release: clean(release), Path: path.Join("/boot", clean(n))}
		}
	}
	for _, dir := range []string{"/lib/modules", "/usr/lib/modules"} {
		names, err := l.tree.names(dir)
		l.tried(dir, err)
		for _, n := range names {
			l.kernelModules(byRelease, dir, n)
		}
	}
	for _, k := range byRelease {
		l.report.Kernels = append(l.report.Kernels, *k)
	}
	slices.SortFunc(l.report.Kernels, func(a, b Kernel) int { return compare(a.Release, b.Release) })
	if len(l.report.Kernels) == 0 {
		l.report.unread("kernel", errors.New("there is no /boot/vmlinuz-* and nothing in /lib/modules"))
		return
	}
	l.defaultKernel()
}

func (l *looker) kernelModules(byRelease map[string]*Kernel, dir, release string) {
	p, err := l.tree.find(path.Join(dir, release))
	if err != nil || p.node.kind != kindDirectory || release == "" || release[0] < '0' || release[0] > '9' {
		return
	}
	k := byRelease[release]
	if k == nil {
		k = &Kernel{Release: clean(release)}
		byRelease[release] = k
		if _, err := l.tree.find(path.Join(dir, release, "vmlinuz")); err == nil {
			k.Path = path.Join(dir, clean(release), "vmlinuz")
		}
	}
	if k.Modules == "" {
		k.Modules = p.path
	}
}

// defaultKernel asks the boot loader's configuration first, then links, then takes the newest that has a file.
func (l *looker) defaultKernel() {
	for _, ask := range []func() (string, string){l.bootEntry, l.grubConfig, l.bootLink} {
		if release, by := ask(); release != "" && l.mark(release, by) {
			return
		}
	}
	for _, k := range slices.Backward(l.report.Kernels) {
		if k.Path != "" {
			l.mark(k.Release, "it is the newest")
			return
		}
	}
	l.report.unread("default kernel", errors.New("there are modules, but no file of a kernel in /boot"))
}

func (l *looker) mark(release, by string) bool {
	for i := range l.report.Kernels {
		if k := &l.report.Kernels[i]; k.Release == release && k.Path != "" {
			k.Default, k.DefaultBy = true, by
			return true
		}
	}
	return false
}

// bootEntry reads entries of the boot loader specification; grub's saved entry wins, then the newest.
func (l *looker) bootEntry() (release, by string) {
	const dir = "/boot/loader/entries"
	names, err := l.tree.names(dir)
	l.tried(dir, err)
	saved := ""
	for _, name := range []string{"/boot/grub2/grubenv", "/boot/grub/grubenv"} {
		if b, _, err := l.tree.read(name, maxText); err == nil {
			saved = assignments(string(b))["saved_entry"]
		}
	}
	for _, n := range names {
		id, isEntry := strings.CutSuffix(n, ".conf")
		b, _, err := l.tree.read(path.Join(dir, n), maxText)
		if !isEntry || err != nil || strings.Contains(n, "rescue") {
			continue
		}
		kernel := kernelIn(string(b))
		if id == saved && kernel != "" {
			return kernel, "grub's saved entry"
		}
		if kernel != "" && (release == "" || compare(kernel, release) > 0) {
			release, by = kernel, "the newest entry in "+dir
		}
	}
	return release, by
}

// kernelIn returns the kernel of the first line that loads one.
func kernelIn(text string) string {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !slices.Contains([]string{"linux", "linux16", "linuxefi"}, fields[0]) {
			continue
		}
		if release, ok := strings.CutPrefix(path.Base(fields[1]), "vmlinuz-"); ok {
			return release
		}
	}
	return ""
}

func (l *looker) grubConfig() (release, by string) {
	for _, name := range []string{"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"} {
		b, where, err := l.tree.read(name, maxText)
		l.tried(name, err)
		if kernel := kernelIn(string(b)); kernel != "" {
			return kernel, "the first entry of " + where
		}
	}
	return "", ""
}

func (l *looker) bootLink() (release, by string) {
	for _, name := range []string{"/boot/vmlinuz", "/vmlinuz"} {
		p, err := l.tree.find(name)
		l.tried(name, err)
		if err != nil {
			continue
		}
		if release, ok := strings.CutPrefix(path.Base(p.path), "vmlinuz-"); ok {
			return release, "the link " + name
		}
	}
	return "", ""
}

// compare orders versions: runs of digits by value, everything else as text.
func compare(a, b string) int {
	for a != "" && b != "" {
		na, nb := len(a)-len(strings.TrimLeft(a, "0123456789")), len(b)-len(strings.TrimLeft(b, "0123456789"))
		if na == 0 || nb == 0 {
			if a[0] != b[0] {
				return strings.Compare(a[:1], b[:1])
			}
			a, b = a[1:], b[1:]
			continue
		}
		da, db := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
		if len(da) != len(db) {
			return len(da) - len(db)
		}
		if c := strings.Compare(da, db); c != 0 {
			return c
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// upstream is the version without epoch and revision of the package.
func upstream(v string) string {
	if _, after, ok := strings.Cut(v, ":"); ok {
		v = after
	}
	if i := strings.LastIndex(v, "-"); i > 0 {
		v = v[:i]
	}
	return v
}
