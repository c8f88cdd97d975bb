// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/check"
)

// TestEveryCaseIsListed keeps docs/cases.md true: it lists exactly the cases that are replayed, each with checks that exist.
func TestEveryCaseIsListed(t *testing.T) {
	doc := contentOf(t, "../../../docs/cases.md")
	listed := all(`(?m)^\| (C\d+) \|`, doc)
	replayed := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, id := range all(`func Test(C\d+)_`, contentOf(t, f)) {
			replayed[id] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(replayed)), listed); diff != "" {
		t.Errorf("docs/cases.md (-replayed +listed):\n%s", diff)
	}
	for _, id := range all("`(CAP-[A-Z-]+)`", doc) {
		if !slices.ContainsFunc(check.All(), func(c check.Check) bool { return c.ID == id }) {
			t.Errorf("docs/cases.md names %s, which is no check", id)
		}
	}
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path) //nolint:gosec // a file of the repository
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// all returns the first group of every match.
func all(pattern, text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
