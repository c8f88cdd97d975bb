// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestUpgradeOfPlainObjects is what the cases start from: nothing is wrong, so a plan says so and an upgrade works.
func TestUpgradeOfPlainObjects(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	settings := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: " + value + "}\n"
	}
	old := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: settings("one")})
	next := writeRelease(t, "v1.1.0", "", part{name: "tool", version: "v1.1.0", manifests: settings("two")})

	want(t, b.capstan(t, "plan", old), problem.ExitDone)
	if w := b.writes(t); len(w) > 0 {
		t.Fatalf("plan wrote: %v", w)
	}
	want(t, b.capstan(t, "upgrade", old, "--yes"), problem.ExitDone)
	want(t, b.capstan(t, "upgrade", next, "--yes"), problem.ExitDone)
	got := b.get(t, "v1", "ConfigMap", "default", "settings")
	if data := got.Object["data"].(map[string]any); data["a"] != "two" { //nolint:forcetypeassert // as it was applied
		t.Errorf("data.a = %v, want two", data["a"])
	}
}
