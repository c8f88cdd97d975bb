// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// component is where a program is looked for and how its version is found.
type component struct {
	name     string
	packages []string
	paths    []string
	// variable is the end of the name of the variable that the linker sets to the version.
	variable string
	// v tells that the version is reported with a leading v.
	v bool
}

func components() []component {
	bin := func(name string) []string {
		return []string{"/usr/local/bin/" + name, "/usr/bin/" + name, "/opt/bin/" + name, "/usr/local/sbin/" + name, "/usr/sbin/" + name}
	}
	cni := []string{}
	for _, dir := range []string{"/opt/cni/bin/", "/usr/lib/cni/", "/usr/libexec/cni/"} {
		cni = append(cni, dir+"bridge", dir+"loopback", dir+"portmap", dir+"host-local")
	}
	return []component{
		{"containerd", []string{"containerd.io", "containerd"}, bin("containerd"), "/version.Version", false},
		{"runc", []string{"runc"}, slices.Concat([]string{"/usr/local/sbin/runc"}, bin("runc")), "main.version", false},
		{"crun", []string{"crun"}, nil, "", false},
		{"cri-o", []string{"cri-o"}, bin("crio"), "/version.Version", false},
		{"kubelet", []string{"kubelet"}, bin("kubelet"), "component-base/version.gitVersion", true},
		{"kubeadm", []string{"kubeadm"}, bin("kubeadm"), "component-base/version.gitVersion", true},
		{"kubectl", []string{"kubectl"}, bin("kubectl"), "component-base/version.gitVersion", true},
		{"crictl", []string{"cri-tools"}, bin("crictl"), "/version.Version", true},
		{"cni-plugins", []string{"kubernetes-cni", "containernetworking-plugins"}, cni, "buildversion.BuildVersion", true},
	}
}

// components reports each program that nodes need: by the program itself where it tells its version, else by its package.
func (l *looker) components() {
	for _, c := range components() {
		if found, ok := l.component(&c); ok {
			l.report.Components = append(l.report.Components, found)
		}
	}
	for _, name := range []string{"containerd", "kubelet"} {
		if l.report.Version(name) == "" && (name != "containerd" || l.report.Version("cri-o") == "") {
			l.report.unread(name, errors.New("neither a package nor a program of that name has a version that can be read"))
		}
	}
}

func (l *looker) component(c *component) (Component, bool) {
	out := Component{Name: c.name}
	var fromPackage string
	for _, name := range c.packages {
		if found := l.packageNamed(name); len(found) > 0 {
			fromPackage = c.style(upstream(found[0].Version))
			out.Package = found[0].Name + " " + found[0].Version
			break
		}
	}
	r, where := l.program(c)
	if r != nil {
		out.Path = where
		v, source, err := binaryVersion(r, c, fromPackage)
		if err != nil && fromPackage == "" {
			l.report.unread(c.name+" at "+where, err)
		}
		out.Version, out.Source = c.style(v), source
	}
	if out.Version == "" && fromPackage != "" {
		out.Version, out.Source = fromPackage, "package"
	} else if fromPackage != "" && numbers(fromPackage) != numbers(out.Version) {
		l.report.Notes = append(l.report.Notes, fmt.Sprintf("%s: the package is %s, the program at %s is %s", c.name, out.Package, where, out.Version))
	}
	return out, out.Version != ""
}

// numbers is the part of a version that package and program must agree in.
func numbers(v string) string {
	v = strings.TrimPrefix(v, "v")
	if i := strings.IndexFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i >= 0 {
		v = v[:i]
	}
	return v
}

func (c *component) style(v string) string {
	v = strings.TrimPrefix(v, "v")
	if c.v && v != "" {
		v = "v" + v
	}
	return v
}

// program opens the program that the system's service starts, or the first there is.
func (l *looker) program(c *component) (*io.SectionReader, string) {
	paths := slices.Clone(c.paths)
	for _, dir := range []string{"/usr/lib/systemd/system/", "/lib/systemd/system/", "/etc/systemd/system/"} {
		b, _, err := l.tree.read(dir+c.name+".service", maxText)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok && strings.HasPrefix(command, "/") {
				if at := strings.Fields(command)[0]; slices.Contains(c.paths, at) {
					paths = append([]string{at}, paths...)
				}
			}
		}
	}
	for _, p := range paths {
		r, where, err := l.tree.open(p)
		if err == nil {
			return r, where
		}
		l.tried(p, err)
	}
	return nil, ""
}

// binaryVersion reads the version out of a program made with Go: what the linker was told, the module's own version, or
// else the one version that is in it as a text of its own.
func binaryVersion(r *io.SectionReader, c *component, hint string) (v, source string, err error) {
	err = guard(func() error {
		info, err := buildinfo.Read(r)
		if err != nil {
			return fmt.Errorf("it has no build info of Go: %w", err)
		}
		for _, s := range info.Settings {
			if s.Key == "-ldflags" {
				v = linked(s.Value, c.variable)
			}
		}
		if v == "" && info.Main.Version != "(devel)" && !strings.HasPrefix(info.Main.Version, "v0.0.0-") {
			v = strings.TrimSuffix(info.Main.Version, "+dirty")
		}
		return nil
	})
	if err != nil || v != "" {
		return clean(v), "build info", err
	}
	err = guard(func() error {
		v, err = writtenVersion(r, hint)
		return err
	})
	return v, "string", err
}

// linked returns what -X sets a variable to.
func linked(flags, variable string) string {
	for field := range strings.FieldsSeq(flags) {
		name, value, ok := strings.Cut(strings.Trim(field, `"'`), "=")
		if ok && strings.HasSuffix(strings.TrimPrefix(name, "-X"), variable) {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// writtenVersion looks for versions that stand alone in the data of a program: the linker ends what -X sets with a zero.
func writtenVersion(r *io.SectionReader, hint string) (string, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return "", fmt.Errorf("it is no program: %w", err)
	}
	pattern := regexp.MustCompile(`\x00v?[0-9]+\.[0-9]+\.[0-9]+([-+~][0-9A-Za-z.+~-]+)?\x00`)
	counts := map[string]int{}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_EXECINSTR != 0 || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_COMPRESSED != 0 {
			continue
		}
		if err := scan(io.LimitReader(s.Open(), 512<<20), pattern, counts); err != nil {
			return "", err
		}
	}
	return choose(counts, hint)
}

// choose takes the version that agrees with the package, without its revision if both are there; else the one that is there
// most often.
func choose(counts map[string]int, hint string) (string, error) {
	var all, agreeing []string
	for v := range counts {
		all = append(all, v)
		if hint != "" && numbers(v) == numbers(hint) {
			agreeing = append(agreeing, v)
		}
	}
	if len(agreeing) > 0 {
		return slices.MinFunc(agreeing, func(a, b string) int {
			return cmp.Or(len(a)-len(b), strings.Compare(a, b))
		}), nil
	}
	slices.SortFunc(all, func(a, b string) int { return counts[b] - counts[a] })
	if len(all) == 0 || len(all) > 1 && counts[all[0]] == counts[all[1]] {
		return "", fmt.Errorf("its build info names no version, and %d versions are written in it", len(all))
	}
	return all[0], nil
}

func scan(r io.Reader, pattern *regexp.Regexp, counts map[string]int) error {
	const overlap = 128
	block, kept := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(r, block[kept:])
		data := block[:kept+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		for rest := data; ; {
			at := pattern.FindIndex(rest)
			if at == nil || !last && len(rest)-at[0] < overlap { // the next block begins before it
				break
			}
			if v := string(bytes.Trim(rest[at[0]:at[1]], "\x00")); len(counts) < 1000 || counts[v] > 0 {
				counts[v]++
			}
			rest = rest[at[1]-1:]
		}
		if last {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(block, data[len(data)-overlap:])
	}
}

// guard turns a panic of a reader in the standard library into an error.
func guard(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	return read()
}

// architecture asks the first program there is.
func (l *looker) architecture() {
	names := map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64",
	}
	for _, p := range []string{"/usr/lib/systemd/systemd", "/bin/sh", "/bin/bash", "/usr/bin/kubelet", "/usr/local/bin/kubelet", "/usr/bin/containerd", "/usr/local/bin/containerd", "/usr/bin/dpkg", "/usr/bin/rpm"} {
		r, where, err := l.tree.open(p)
		if err != nil {
			l.tried(p, err)
			continue
		}
		var machine elf.Machine
		err = guard(func() error {
			f, err := elf.NewFile(r)
			if err == nil {
				machine = f.Machine
			}
			return err
		})
		if err == nil && names[machine] != "" {
			l.report.Architecture = names[machine]
			return
		}
		l.report.unread("architecture of "+path.Clean(where), fmt.Errorf("machine %v: %w", machine, errors.Join(err, errors.ErrUnsupported)))
	}
	l.report.unread("architecture", errors.New("no program was found that tells it"))
}
