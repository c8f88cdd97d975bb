// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// TestC17_LargeCRD: the CRD to come is larger than an annotation may be, and its predecessor was put there by `kubectl apply`.
func TestC17_LargeCRD(t *testing.T) {
	t.Parallel()
	const name = "m3s.infrastructure.cluster.x-k8s.io"
	for what, c := range map[string]struct {
		manager string
		// kept is how long the annotation may be afterwards: that of a tool which Capstan does not know is not Capstan's to remove.
		kept int
	}{
		"by kubectl":                           {manager: "kubectl-client-side-apply"},
		"by clusterctl, after kubectl":         {manager: "clusterctl"},
		"by a tool that Capstan does not know": {manager: "deployer", kept: 1000},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, apitest.Options{})
			b.ready(t)
			small := objects(t, kindYAML("m3s", "M3", ver{name: "v1", storage: true}))[0]
			text, err := json.Marshal(small.Object)
			if err != nil {
				t.Fatal(err)
			}
			small.SetAnnotations(map[string]string{lastApplied: string(text)})
			made, err := b.of(t, small).Create(t.Context(), small, metav1.CreateOptions{FieldManager: c.manager})
			if err != nil {
				t.Fatal(err)
			}
			b.established(t, name)
			b.apply(t, thingYAML("v1", "M3", "ns", "m", "spec: {a: b}"))

			large := kindYAML("m3s", "M3", ver{name: "v1", storage: true, spec: fmt.Sprintf("{type: object, x-kubernetes-preserve-unknown-fields: true, description: %q}", strings.Repeat("x", 400_000))})
			dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", large))
			want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)

			after := b.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
			if after.GetUID() != made.GetUID() {
				t.Errorf("the CRD was made anew")
			}
			if a := after.GetAnnotations()[lastApplied]; len(a) > c.kept {
				t.Errorf("an annotation of %d bytes says what was applied before", len(a))
			}
			versions, _, err := unstructured.NestedSlice(after.Object, "spec", "versions")
			if raw, _ := json.Marshal(versions); err != nil || len(raw) < 400_000 {
				t.Errorf("the CRD is not the large one: %d bytes", len(raw))
			}
			if got := b.list(t, "infrastructure.cluster.x-k8s.io/v1", "M3"); len(got) != 1 {
				t.Errorf("%d objects afterwards, want 1", len(got))
			}
		})
	}
}
