// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestVersionOrder is no report of its own: no stop is skipped, nothing goes back, and a major version is agreed to.
func TestVersionOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	tool := func(version string) part {
		return part{name: "tool", version: version, manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tool, namespace: default}\ndata: {version: " + version + "}\n"}
	}
	want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.0.0", "upgradeFrom: [v0.9.0]", tool("v1.0.0")), "--yes"), problem.ExitDone)
	before := len(b.writes(t))
	for _, tc := range []struct {
		dir    string
		pieces []string
	}{
		{writeRelease(t, "v1.2.0", "upgradeFrom: [v1.1.0]", tool("v1.2.0")), []string{"CAP-RELEASE-EDGE", "Release v1.2.0 can't be reached from v1.0.0, only from v1.1.0"}},
		{writeRelease(t, "v1.1.0", "", tool("v0.9.0")), []string{"CAP-DOWNGRADE", "Component tool would go back from v1.0.0 to v0.9.0"}},
		{writeRelease(t, "v1.1.0", "", tool("v2.0.0")), []string{"CAP-MAJOR-JUMP", "Component tool would move to another major version, from v1.0.0 to v2.0.0"}},
	} {
		want(t, b.capstan(t, "upgrade", tc.dir, "--yes"), problem.ExitBlocked, tc.pieces...)
	}
	if after := len(b.writes(t)); after != before {
		t.Errorf("Capstan wrote %d times although it refused", after-before)
	}
	want(t, b.capstan(t, "plan", writeRelease(t, "v1.1.0", "", tool("v2.0.0")), "--accept", "CAP-MAJOR-JUMP=the notes say nothing changes for us"), problem.ExitDone)
}

// TestDependentObjects: whatever kind a release names, each object that was made for another major version is named.
func TestDependentObjects(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicetemplates.example.com}
spec:
  group: example.com
  names: {kind: ServiceTemplate, plural: servicetemplates}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: example.com/v1
kind: ServiceTemplate
metadata: {name: old, namespace: team-a}
spec: {needs: [{name: tool, version: v1.4.0}]}
---
apiVersion: example.com/v1
kind: ServiceTemplate
metadata: {name: new, namespace: team-b}
spec: {needs: [{name: tool, version: "2.0"}]}
`)
	tool := part{name: "tool", version: "v2.0.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tool, namespace: default}\n"}
	spec := "dependents:\n- {apiVersion: example.com/v1, kind: ServiceTemplate, fieldPath: \".spec.needs[*].version\", component: tool}\n" +
		"- {apiVersion: example.com/v1, kind: NotHere, fieldPath: .spec.version, component: tool}"
	r := b.capstan(t, "plan", writeRelease(t, "v2.0.0", spec, tool))
	b.refused(t, r, "CAP-DEPENDENT-MAJOR", "ServiceTemplate team-a/old depends on tool v1", `its .spec.needs[*].version is "v1.4.0"`, "the release has v2.0.0")
	lacks(t, r, "team-b/new")
}
