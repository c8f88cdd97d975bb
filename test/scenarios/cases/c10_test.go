// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

const metal3 = "metal3clusters.infrastructure.cluster.x-k8s.io"

func TestC10_StoredVersionThatGoes(t *testing.T) {
	t.Parallel()
	earlier := kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha4", storage: true}, ver{name: "v1beta1"})
	now := kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha4"}, ver{name: "v1beta1", storage: true})
	three := ""
	for i := range 3 {
		three += thingYAML("v1alpha4", "Metal3Cluster", fmt.Sprint("ns-", i), "c", "spec: {endpoint: here}")
	}
	for name, c := range map[string]struct {
		objects int
		made    []string
		next    string
		crd     string
		// plan is what the plan has to say.
		plan []string
	}{
		"objects were written in the version that goes": {
			objects: 3, made: []string{earlier, three, now}, crd: metal3,
			next: kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true}),
			plan: []string{"CAP-CRD-STORED-VERSION", metal3, "drops v1alpha4", "3 objects", "rewrites them in v1beta1"},
		},
		"no object is left, only the entry": {
			made: []string{earlier, now}, crd: metal3,
			next: kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true}),
			plan: []string{"CAP-CRD-STORED-VERSION", metal3, "drops v1alpha4", "0 objects"},
		},
		"the storage version itself goes": {
			objects: 3, made: []string{earlier, three}, crd: metal3,
			next: kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true}),
			plan: []string{"CAP-CRD-STORED-VERSION", "drops v1alpha4", "3 objects", "rewrites them in v1beta1"},
		},
		"several versions go, of a kind without namespaces, and the new storage version is not there yet": {
			objects: 2, crd: "widethings.infrastructure.cluster.x-k8s.io",
			made: []string{
				kindYAML("widethings", "WideThing", ver{name: "v1alpha3", storage: true}, ver{name: "v1alpha4"}),
				thingYAML("v1alpha3", "WideThing", "", "one", "spec: {a: b}"),
				kindYAML("widethings", "WideThing", ver{name: "v1alpha3"}, ver{name: "v1alpha4", storage: true}, ver{name: "v1beta1", unserved: true}),
				thingYAML("v1alpha4", "WideThing", "", "two", "spec: {a: b}"),
			},
			next: kindYAML("widethings", "WideThing", ver{name: "v1beta1"}, ver{name: "v1", storage: true}),
			plan: []string{"drops v1alpha3, v1alpha4", "2 objects", "rewrites them in v1beta1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, apitest.Options{})
			b.ready(t, c.made...)
			dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", c.next))

			want(t, b.capstan(t, "plan", dir), problem.ExitDone, c.plan...)
			if w := b.writes(t); len(w) > 0 {
				t.Fatalf("plan wrote: %v", w)
			}
			want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)
			next := objects(t, c.next)[0]
			storage := storageVersion(next)
			if got := b.stored(t, c.crd); !strings.HasSuffix(got, storage) || strings.Contains(got, "alpha") {
				t.Errorf("storedVersions are %s, want %s and none that went", got, storage)
			}
			kind, _, _ := unstructured.NestedString(next.Object, "spec", "names", "kind")
			if got := b.list(t, "infrastructure.cluster.x-k8s.io/"+storage, kind); len(got) != c.objects {
				t.Errorf("%d objects afterwards, want %d", len(got), c.objects)
			}
			want(t, b.capstan(t, "plan", dir), problem.ExitDone, "othing")
		})
	}
}

func storageVersion(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["storage"] == true {
			return fmt.Sprint(m["name"])
		}
	}
	return ""
}

// TestC10_WithoutMigration is refused with steps that work when they are typed.
func TestC10_WithoutMigration(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.ready(t,
		kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha4", storage: true}, ver{name: "v1beta1"}),
		thingYAML("v1alpha4", "Metal3Cluster", "ns", "c", "spec: {endpoint: here}"))
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true})))

	r := b.capstan(t, "plan", dir, "--no-migrate")
	b.refused(t, r, "CAP-CRD-STORED-VERSION", metal3, "v1alpha4", "1 object", "kubectl replace -f -", "storedVersions")
	b.refused(t, b.capstan(t, "upgrade", dir, "--yes", "--no-migrate"), "CAP-CRD-STORED-VERSION")

	b.doesWhatIsSaid(t, r)
	want(t, b.capstan(t, "upgrade", dir, "--yes", "--no-migrate"), problem.ExitDone)
}

// TestC10_NoCommonVersion can't be migrated: the plan says so and what to do.
func TestC10_NoCommonVersion(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.ready(t,
		kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha3", storage: true}),
		thingYAML("v1alpha3", "Metal3Cluster", "ns", "c", "spec: {endpoint: here}"))
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true})))
	b.refused(t, b.capstan(t, "plan", dir), "CAP-CRD-STORED-VERSION", "can't be migrated", "first upgrade to a version of metal3")
}

// TestC10_ObjectThatIsRefused blocks with the object: the API server does not take it as it is.
func TestC10_ObjectThatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.ready(t,
		kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha4", storage: true}, ver{name: "v1beta1"}),
		thingYAML("v1alpha4", "Metal3Cluster", "ns", "good", "spec: {endpoint: here}")+thingYAML("v1alpha4", "Metal3Cluster", "ns", "bad", "spec: {endpoint: frozen}"),
		`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: frozen}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: ["*"], operations: [UPDATE], resources: [metal3clusters]}]}
  validations: [{expression: "object.spec.endpoint != 'frozen'", message: "frozen clusters are not to be touched"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: frozen}
spec: {policyName: frozen, validationActions: [Deny]}
`)
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true})))
	bad := objects(t, thingYAML("v1beta1", "Metal3Cluster", "ns", "bad", ""))[0]
	b.until(t, "the policy works", b.denies(t, bad))
	b.refused(t, b.capstan(t, "plan", dir), "CAP-CRD-STORED-VERSION", "Metal3Cluster ns/bad can't be migrated", "frozen clusters are not to be touched")
}

// TestC10_KilledInTheMiddle goes on where it was, and loses nothing.
func TestC10_KilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const n = 1200
	b := newBed(t, apitest.Options{})
	b.ready(t, kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha3", storage: true}, ver{name: "v1alpha4"}, ver{name: "v1beta1"}))
	b.many(t, n, "v1alpha3", "Metal3Cluster")
	b.apply(t, kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1alpha3"}, ver{name: "v1alpha4", storage: true}, ver{name: "v1beta1"}))
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("metal3clusters", "Metal3Cluster", ver{name: "v1beta1", storage: true})))

	b.capstanKilled(t, "metal3clusters", 450, "upgrade", dir, "--yes")
	if got := b.stored(t, metal3); !strings.Contains(got, "v1alpha3") {
		t.Fatalf("storedVersions are %s before all objects were written", got)
	}
	want(t, b.capstan(t, "resume", "--yes"), problem.ExitDone)
	if got := b.stored(t, metal3); got != "v1beta1" {
		t.Errorf("storedVersions are %s, want v1beta1", got)
	}
	if got := b.list(t, "infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Cluster"); len(got) != n {
		t.Errorf("%d objects afterwards, want %d", len(got), n)
	}
}

// many makes n objects in ten namespaces.
func (b *bed) many(t *testing.T, n int, version, kind string) {
	t.Helper()
	first := objects(t, thingYAML(version, kind, "ns-0", "x", "spec: {a: b}"))[0]
	m := b.mapping(t, first.GroupVersionKind())
	var wg sync.WaitGroup
	for w := range 10 {
		ns := fmt.Sprint("ns-", w)
		b.namespace(t, ns)
		wg.Go(func() {
			for i := w; i < n; i += 10 {
				u := first.DeepCopy()
				u.SetNamespace(ns)
				u.SetName(fmt.Sprint("x-", i))
				if _, err := b.client.Resource(m.Resource).Namespace(ns).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
					t.Errorf("make %s: %v", u.GetName(), err)
					return
				}
			}
		})
	}
	wg.Wait()
}
