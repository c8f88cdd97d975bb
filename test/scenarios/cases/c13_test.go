// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC13_OwnerReferencesAtVersionsThatGo(t *testing.T) {
	t.Parallel()
	parents := func(versions ...ver) string { return kindYAML("parents", "Parent", versions...) }
	children := kindYAML("children", "Child", ver{name: "v1beta1", storage: true})
	for name, c := range map[string]struct {
		before []ver
		after  []ver
		// first is the version that references are made at.
		first string
		to    string
	}{
		"the version goes now": {
			before: []ver{{name: "v1alpha3"}, {name: "v1beta1", storage: true}}, after: []ver{{name: "v1beta1", storage: true}}, first: "v1alpha3", to: "v1beta1",
		},
		"the version has gone before": {
			before: []ver{{name: "v1beta1", storage: true}}, after: []ver{{name: "v1beta1", storage: true}, {name: "v1"}}, first: "v1alpha3", to: "v1beta1",
		},
		"the version stays and is not served any more": {
			before: []ver{{name: "v1alpha3"}, {name: "v1beta1", storage: true}}, after: []ver{{name: "v1alpha3", unserved: true}, {name: "v1beta1", storage: true}},
			first: "v1alpha3", to: "v1beta1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, apitest.Options{ControllerManager: true})
			b.ready(t, parents(c.before...)+children)
			parent := b.apply(t, thingYAML("v1beta1", "Parent", "ns", "p", "spec: {a: b}"))[0]
			owner := fmt.Sprintf("ownerReferences: [{apiVersion: infrastructure.cluster.x-k8s.io/%s, kind: Parent, name: p, uid: %s, controller: true, blockOwnerDeletion: true}]", c.first, parent.GetUID())
			made := "apiVersion: v1\nkind: Secret\nmetadata: {name: kubeconfig, namespace: ns, " + owner + "}\n"
			for i := range 3 {
				made += fmt.Sprintf("---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: Child\nmetadata: {name: c-%d, namespace: ns, %s}\nspec: {a: b}\n", i, owner)
			}
			b.apply(t, made)
			dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", parents(c.after...)+children))

			want(t, b.capstan(t, "plan", dir), problem.ExitDone, "CAP-OWNER-REFERENCES", "3 Child", "1 Secret", "ns/c-0, ns/c-1, ns/c-2", "ns/kubeconfig", c.first)
			b.refused(t, b.capstan(t, "plan", dir, "--no-migrate"), "CAP-OWNER-REFERENCES", "kubectl")
			want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)

			wanted := metav1.OwnerReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/" + c.to, Kind: "Parent", Name: "p", UID: parent.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true),
			}
			secret := b.get(t, "v1", "Secret", "ns", "kubeconfig")
			for _, u := range append(b.list(t, "infrastructure.cluster.x-k8s.io/v1beta1", "Child"), *secret) {
				if got := u.GetOwnerReferences(); len(got) != 1 || fmt.Sprintf("%+v", flat(got[0])) != fmt.Sprintf("%+v", flat(wanted)) {
					t.Errorf("%s %s has ownerReferences %+v, want %+v", u.GetKind(), u.GetName(), got, wanted)
				}
			}
			policy := metav1.DeletePropagationForeground
			if err := b.of(t, parent).Delete(t.Context(), "p", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatalf("delete the parent: %v", err)
			}
			// The garbage collector looks every half minute which kinds there are, and may have to notice the change first.
			secrets := b.of(t, secret)
			gone := func(ctx context.Context) (bool, error) {
				_, err := secrets.Get(ctx, "kubeconfig", metav1.GetOptions{})
				//nolint:contextcheck // the test's own context is the same
				return apierrors.IsNotFound(err) && len(b.list(t, "infrastructure.cluster.x-k8s.io/v1beta1", "Child")) == 0, nil
			}
			if err := wait.PollUntilContextTimeout(t.Context(), time.Second, 3*limit, true, gone); err != nil {
				t.Errorf("the children stay behind without their parent: %v", err)
			}
		})
	}
}

// flat makes two references comparable.
func flat(r metav1.OwnerReference) string {
	return fmt.Sprint(r.APIVersion, r.Kind, r.Name, r.UID, *r.Controller, *r.BlockOwnerDeletion)
}
