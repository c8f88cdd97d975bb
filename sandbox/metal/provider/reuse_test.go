// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestReuse covers whose template decides that a host is used again, the one thing in which the generations differ. The machine was cloned from "old"; its
// owner names "new" by now, its MachineSet still "old".
func TestReuse(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	cases := map[string]struct {
		worker   bool
		old, new *bool // nil: there is no such template
		noOwner  bool
		want     map[Generation]bool
	}{
		"control plane, old template says so":   {old: yes, new: no, want: map[Generation]bool{Old: true, New: false}},
		"control plane, new template says so":   {old: no, new: yes, want: map[Generation]bool{Old: false, New: true}},
		"control plane, both say so":            {old: yes, new: yes, want: map[Generation]bool{Old: true, New: true}},
		"control plane, old template is gone":   {new: yes, want: map[Generation]bool{Old: false, New: true}},
		"control plane, its owner is gone":      {old: yes, new: yes, noOwner: true, want: map[Generation]bool{Old: false, New: false}},
		"worker, old template says so":          {worker: true, old: yes, new: no, want: map[Generation]bool{Old: true, New: true}},
		"worker, new template says so":          {worker: true, old: no, new: yes, want: map[Generation]bool{Old: false, New: false}},
		"worker, its MachineDeployment is gone": {worker: true, old: yes, new: yes, noOwner: true, want: map[Generation]bool{Old: false, New: false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			for template, reuse := range map[string]*bool{"old": tc.old, "new": tc.new} {
				if reuse != nil {
					u := named(infraKind("Metal3MachineTemplate"), template)
					set(u, *reuse, "spec", "nodeReuse")
					objects = append(objects, u)
				}
			}
			machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
			ownerKind, path := controlPlaneKind(), []string{"spec", "machineTemplate", "spec", "infrastructureRef", "name"}
			machine.OwnerReferences = []metav1.OwnerReference{{Kind: "KubeadmControlPlane", Name: "owner"}}
			if tc.worker {
				ownerKind, path = clusterv1.GroupVersion.WithKind("MachineDeployment"), []string{"spec", "template", "spec", "infrastructureRef", "name"}
				machine.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "owner"}
				machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "set"}}
				u := named(clusterv1.GroupVersion.WithKind("MachineSet"), "set")
				set(u, "old", path...)
				objects = append(objects, u)
			}
			if !tc.noOwner {
				u := named(ownerKind, "owner")
				set(u, "new", path...)
				objects = append(objects, u)
			}
			infra := named(infraKind("Metal3Machine"), "m")
			infra.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "old"})
			c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).Build()
			for generation, want := range tc.want {
				r := &machineReconciler{base{client: c, generation: generation, clock: clock.RealClock{}}}
				got, err := r.reuses(t.Context(), &scope{machine: machine, infra: infra})
				if err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("generation %s: reuses %t, want %t", generation, got, want)
				}
			}
		})
	}
}

func named(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := object(kind)
	u.SetNamespace("n")
	u.SetName(name)
	return u
}

func TestGenerationOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]Generation{"v1.12.4": Old, "v1.13.2": New, "v1.14.0": "", "": ""} {
		if got, err := GenerationOf(version); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", version, got, err, want)
		}
	}
}
