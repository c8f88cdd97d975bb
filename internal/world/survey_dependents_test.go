// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestValues(t *testing.T) {
	t.Parallel()
	object := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"example.com/release": "v2.1.0"}},
		"spec": map[string]any{
			"version":   "v1.2.3",
			"major":     int64(2),
			"providers": []any{map[string]any{"name": "a", "version": "v1"}, map[string]any{"name": "b"}, map[string]any{"version": "v3"}},
			"nothing":   nil,
		},
	}
	cases := map[string][]string{
		".spec.version":                           {"v1.2.3"},
		"spec.version":                            {"v1.2.3"},
		"{.spec.version}":                         {"v1.2.3"},
		".spec.major":                             {"2"},
		".spec.providers[*].version":              {"v1", "v3"},
		".spec.providers.version":                 {"v1", "v3"},
		".metadata.labels['example.com/release']": {"v2.1.0"},
		`.metadata.labels["example.com/release"]`: {"v2.1.0"},
		".spec.absent.version":                    nil,
		".spec.version.deeper":                    nil,
		".spec.nothing":                           nil,
		".spec.providers":                         nil,
	}
	for path, want := range cases {
		if diff := cmp.Diff(world.Values(object, path), want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", path, diff)
		}
	}
}
