// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Command checkdocs writes one page for each check of the registry, and an index, into a directory. Pages of checks that
// are no more are removed. `make generate` calls it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/internal/check"
)

const mark = "<!-- Written by `make generate` from internal/check. Don't edit. -->\n\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: checkdocs DIRECTORY")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "checkdocs:", err)
		os.Exit(1)
	}
}

func generate(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return fmt.Errorf("list pages: %w", err)
	}
	for _, page := range old {
		if err := os.Remove(page); err != nil && !errors.Is(err, os.ErrNotExist) { //nolint:gosec // the directory is the caller's choice
			return fmt.Errorf("remove old page: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documentation is for everybody
		return fmt.Errorf("make directory: %w", err)
	}
	checks := check.All()
	if err := write(dir, "README.md", index(checks)); err != nil {
		return err
	}
	for i := range checks {
		if err := write(dir, checks[i].ID+".md", page(&checks[i])); err != nil {
			return err
		}
	}
	return nil
}

func write(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(mark+text), 0o644); err != nil { //nolint:gosec // documentation is for everybody
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func index(checks []check.Check) string {
	var b strings.Builder
	b.WriteString("# Checks\n\nWhat is made sure of before anything is written. All checks run, whatever the others say; one that could not look blocks.\n" +
		"`capstan explain ID` shows the same. A finding that can be accepted is accepted by name with a reason, which is recorded:\n" +
		"`--accept ID='why it is safe here'`.\n\n| check | makes sure that | used by | can be accepted |\n| --- | --- | --- | --- |\n")
	for i := range checks {
		c := &checks[i]
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", c.ID, c.ID, lower(c.Title), plans(c.Scope), yes(c.Waivable))
	}
	return b.String()
}

func page(c *check.Check) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nMakes sure that %s.\n\n%s\n", c.ID, lower(c.Title), c.Doc)
	if c.Fix != "" {
		fmt.Fprintf(&b, "\n## What to do\n\n%s\n", c.Fix)
	}
	if c.Waivable {
		fmt.Fprintf(&b, "\nIt can be accepted: `--accept %s='why it is safe here'`. The reason is recorded and shown by `capstan history`.\n", c.ID)
	} else {
		b.WriteString("\nIt can't be accepted: it has to be repaired.\n")
	}
	fmt.Fprintf(&b, "\nUsed by: %s.\n", plans(c.Scope))
	if len(c.Sources) > 0 {
		b.WriteString("\n## Sources\n\n")
		for _, s := range c.Sources {
			fmt.Fprintf(&b, "- <%s>\n", s)
		}
	}
	return b.String()
}

func plans(s check.Scope) string {
	switch s {
	case check.Nodes:
		return "plans for nodes"
	case check.Both:
		return "plans for the platform and for nodes"
	case check.Verify:
		return "`capstan verify`"
	case check.Platform:
	}
	return "plans for the platform"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// lower makes a title part of a sentence. Names of kinds keep their letters.
func lower(title string) string {
	first, rest, _ := strings.Cut(title, " ")
	if first != strings.ToUpper(first[:1])+strings.ToLower(first[1:]) || strings.HasPrefix(first, "Cluster") || strings.HasPrefix(first, "Machine") || strings.HasPrefix(first, "Kube") || strings.HasPrefix(first, "Capstan") {
		return title
	}
	return strings.TrimSpace(strings.ToLower(first) + " " + rest)
}
