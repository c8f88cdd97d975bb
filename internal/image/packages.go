// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// maxPackages, maxDatabase and maxField bound what is read of package databases.
const (
	maxPackages = 200_000
	maxDatabase = 256 << 20
	maxField    = 1 << 20
)

// packages reads all package databases and reports those that were asked for.
func (l *looker) packages() {
	l.dpkg()
	l.rpm()
	slices.SortFunc(l.all, func(a, b Package) int {
		return strings.Compare(a.Name+"\x00"+a.Architecture+"\x00"+a.Version, b.Name+"\x00"+b.Architecture+"\x00"+b.Version)
	})
	l.report.PackageCount = len(l.all)
	if len(l.report.PackageDatabases) == 0 {
		l.report.unread("packages", errors.New("there is neither a dpkg nor an rpm database that can be read"))
	}
	if l.options.AllPackages {
		l.report.Packages = l.all
		return
	}
	for _, name := range l.options.Packages {
		found := l.packageNamed(name)
		if len(found) == 0 && len(l.report.PackageDatabases) > 0 {
			l.report.unread("package "+name, errors.New("it is not installed"))
		}
		for _, p := range found {
			if !slices.Contains(l.report.Packages, p) {
				l.report.Packages = append(l.report.Packages, p)
			}
		}
	}
}

func (l *looker) packageNamed(name string) []Package {
	var out []Package
	for _, p := range l.all {
		if p.Name == name {
			out = append(out, p)
		}
	}
	return out
}

func (l *looker) database(kind string, found []Package) {
	if !slices.Contains(l.report.PackageDatabases, kind) {
		l.report.PackageDatabases = append(l.report.PackageDatabases, kind)
	}
	l.all = append(l.all, found...)
}

// dpkg reads the status file, and the folder of such files that images without a package manager have.
func (l *looker) dpkg() {
	files := []string{"/var/lib/dpkg/status"}
	names, err := l.tree.names("/var/lib/dpkg/status.d")
	l.tried("/var/lib/dpkg/status.d", err)
	for _, n := range names {
		if !strings.HasSuffix(n, ".md5sums") {
			files = append(files, path.Join("/var/lib/dpkg/status.d", n))
		}
	}
	for i, name := range files {
		r, _, err := l.tree.open(name)
		if err == nil && r.Size() > maxDatabase {
			err = fmt.Errorf("%d bytes are more than are read", r.Size())
		}
		if err != nil {
			l.tried(name, err)
			continue
		}
		found, err := stanzas(r, i > 0)
		l.tried(name, err)
		if len(l.all)+len(found) > maxPackages {
			l.report.unread(name, errors.New("it has too many packages"))
			return
		}
		if err == nil || len(found) > 0 {
			l.database("dpkg", found)
		}
	}
}

// stanzas reads installed packages. Files of one package say nothing of its state.
func stanzas(r io.Reader, single bool) ([]Package, error) {
	var out []Package
	p, state := Package{Database: "dpkg"}, ""
	flush := func() {
		if p.Name != "" && p.Version != "" && (strings.HasSuffix(state, " installed") || single && state == "") {
			out = append(out, p)
		}
		p, state = Package{Database: "dpkg"}, ""
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxField)
	for lines.Scan() {
		line := lines.Text()
		if strings.TrimSpace(line) == "" {
			flush()
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = clean(strings.TrimSpace(value[:min(len(value), 512)]))
		switch key {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.Architecture = value
		case "Status":
			state = value
		}
		if len(out) > maxPackages {
			return nil, errors.New("it has too many packages")
		}
	}
	flush()
	if err := lines.Err(); err != nil {
		return out, fmt.Errorf("read packages: %w", err)
	}
	return out, nil
}
