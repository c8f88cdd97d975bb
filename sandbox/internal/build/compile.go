// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// compile builds the recipe's programs from the module in src into out.
func compile(ctx context.Context, tool *goTool, r recipe, src, out string, p *tracker) error {
	total, err := countPackages(ctx, tool, r, src, p)
	if err != nil {
		return err
	}
	c := counter{total: total, p: p}
	p.report(StageCompiling, "", 0, total)
	for _, batch := range batches(r.targets) {
		args := []string{
			"build", "-mod=mod", "-buildvcs=false", "-v", "-ldflags", strings.TrimSpace(baseLDFlags + " " + r.ldflags),
			"-o", out + string(filepath.Separator),
		}
		for _, t := range batch {
			args = append(args, t.pkg)
		}
		if err := tool.run(ctx, src, nil, c.line, args...); err != nil {
			return err
		}
		for _, t := range batch {
			if err := os.Rename(filepath.Join(out, outputName(t.pkg)), filepath.Join(out, t.binary)); err != nil {
				return err
			}
		}
	}
	p.report(StageCompiling, "", total, total)
	return nil
}

// countPackages works out what the programs are made of, which also fetches every module they need.
func countPackages(ctx context.Context, tool *goTool, r recipe, src string, p *tracker) (int, error) {
	p.report(StageResolving, "", 0, 0)
	args := []string{"list", "-mod=mod", "-deps"}
	for _, t := range r.targets {
		args = append(args, t.pkg)
	}
	downloads := 0
	var packages strings.Builder
	err := tool.run(ctx, src, &packages, func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			downloads++
			p.report(StageDownloading, module, downloads, 0)
		}
	}, args...)
	return strings.Count(packages.String(), "\n"), err
}

// counter turns the package names that "go build -v" prints into events.
type counter struct {
	done, total int
	p           *tracker
}

func (c *counter) line(line string) {
	if strings.HasPrefix(line, "go: ") || strings.HasPrefix(line, "#") || strings.Contains(line, " ") {
		return // a message, not a package
	}
	c.done = min(c.done+1, c.total)
	c.p.report(StageCompiling, line, c.done, c.total)
}

// batches splits targets so that no two of one batch get the same file name from the go command, which names a program after
// the last part of its path. One batch is best: its link steps run side by side.
func batches(targets []target) [][]target {
	var all [][]target
next:
	for _, t := range targets {
		for i, batch := range all {
			if !clashes(batch, t) {
				all[i] = append(batch, t)
				continue next
			}
		}
		all = append(all, []target{t})
	}
	return all
}

func clashes(batch []target, t target) bool {
	for _, other := range batch {
		// A finished binary must not be overwritten by a later output either.
		if outputName(other.pkg) == outputName(t.pkg) || other.binary == outputName(t.pkg) {
			return true
		}
	}
	return false
}

// outputName is the file that "go build -o DIR/" writes for a main package.
func outputName(pkg string) string {
	name := path.Base(pkg)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(name) {
		name = path.Base(path.Dir(pkg))
	}
	return name
}
