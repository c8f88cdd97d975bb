// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC12_ManagedFieldsAtVersionsThatGo(t *testing.T) {
	t.Parallel()
	old := kindYAML("m3s", "M3", ver{name: "v1old", storage: true}, ver{name: "v1new"})
	both := kindYAML("m3s", "M3", ver{name: "v1old"}, ver{name: "v1new", storage: true})
	gone := kindYAML("m3s", "M3", ver{name: "v1new", storage: true})
	var made strings.Builder
	for i := range 3 {
		made.WriteString(thingYAML("v1old", "M3", "ns", fmt.Sprint("m-", i), "spec: {a: {b: c}}"))
	}
	const crd = "m3s.infrastructure.cluster.x-k8s.io"
	for name, c := range map[string]struct {
		// begin brings the bed to where the release finds it.
		begin func(t *testing.T, b *bed)
		next  string
	}{
		"the version goes now": {
			begin: func(t *testing.T, b *bed) {
				t.Helper()
				b.applyAs(t, "gitops", made.String())
				b.apply(t, both)
			},
			next: gone,
		},
		"the version has gone before, and apply is broken already": {
			begin: func(t *testing.T, b *bed) {
				t.Helper()
				b.applyAs(t, "gitops", made.String())
				b.apply(t, both)
				for _, u := range b.list(t, "infrastructure.cluster.x-k8s.io/v1new", "M3") {
					b.patch(t, &u, "{}")
				}
				b.patch(t, b.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crd), `{"status": {"storedVersions": ["v1new"]}}`, "status")
				b.apply(t, gone)
				u := b.get(t, "infrastructure.cluster.x-k8s.io/v1new", "M3", "ns", "m-0")
				b.until(t, "apply is broken", b.breaks(t, u))
			},
			next: kindYAML("m3s", "M3", ver{name: "v1new", storage: true}, ver{name: "v1newer"}),
		},
		"nobody but the manager at the version that goes has written": {
			begin: func(t *testing.T, b *bed) {
				t.Helper()
				b.applyAs(t, "kubectl-client-side-apply", made.String())
				b.apply(t, both)
			},
			next: strings.Replace(gone, "properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}", "properties: {spec: {type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true}}}", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, apitest.Options{})
			b.ready(t, old)
			c.begin(t, b)
			dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", c.next))

			want(t, b.capstan(t, "plan", dir), problem.ExitDone, "CAP-MANAGED-FIELDS", crd, "3 of 3 objects", "v1old", "ns/m-0")
			b.refused(t, b.capstan(t, "plan", dir, "--no-migrate"), "CAP-MANAGED-FIELDS", "kubectl")
			want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)
			all := b.list(t, "infrastructure.cluster.x-k8s.io/v1new", "M3")
			if len(all) != 3 {
				t.Errorf("%d objects afterwards, want 3", len(all))
			}
			for i := range all {
				b.applies(t, &all[i])
				for _, e := range all[i].GetManagedFields() {
					if strings.Contains(e.APIVersion, "v1old") {
						t.Errorf("%s still has managedFields at %s", all[i].GetName(), e.APIVersion)
					}
				}
			}
		})
	}
}

// TestC12_OwnershipSurvives: what GitOps owned at the version that went it owns afterwards, so that it can still remove it.
func TestC12_OwnershipSurvives(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.ready(t, kindYAML("m3s", "M3", ver{name: "v1old", storage: true}, ver{name: "v1new"}))
	b.applyAs(t, "gitops", thingYAML("v1old", "M3", "ns", "m", "spec: {keep: a, drop: b}"))
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("m3s", "M3", ver{name: "v1new", storage: true})))
	want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)

	b.mapper.Reset()
	u := objects(t, thingYAML("v1new", "M3", "ns", "m", "spec: {keep: a}"))[0]
	now, err := b.of(t, u).Apply(t.Context(), "m", u, metav1.ApplyOptions{FieldManager: "gitops"})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if spec := now.Object["spec"].(map[string]any); spec["drop"] != nil || spec["keep"] != "a" { //nolint:forcetypeassert // as it was applied
		t.Errorf("spec is %v afterwards, want {keep: a}", spec)
	}
}
