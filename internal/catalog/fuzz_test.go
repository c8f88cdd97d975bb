// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/catalog"
	"github.com/capstan-dev/capstan/internal/problem"
)

// FuzzParse feeds the reader of catalog entries: it takes an entry whole, or refuses with one complete problem.
func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "  url: http://x/y\n"))
	f.Add([]byte(head + "  id: ami-1\n  checksumType: md5\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		image, err := catalog.Parse(t.Context(), "image.yaml", data)
		if err == nil {
			if image.Name == "" || image.Spec.URL == "" && image.Spec.ID == "" {
				t.Errorf("accepted, but incomplete: %+v", image)
			}
			return
		}
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Message == "" || !strings.HasPrefix(p.Where, "image.yaml") {
			t.Errorf("not a complete problem: %v", err)
		}
	})
}
