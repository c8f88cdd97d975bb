// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/actuate"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	want := v1alpha1.Migration{
		Resource: "things.example.org", Group: "example.org", Kind: "Thing", Storage: "v1", Drop: []string{"v0"}, Versions: []string{"v1"}, SameFields: true, Objects: 2,
		Owners: []v1alpha1.OwnerVersion{{Group: "example.org", Kind: "Parent", Version: "v1", Served: []string{"v1"}}},
	}
	crd := world.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "things.example.org"}
	thing := world.Ref{APIVersion: "example.org/v1", Kind: "Thing", Namespace: "ns", Name: "a"}
	at := func(change func(*world.Migrating)) world.Migrating {
		m := world.Migrating{
			Resource: "things.example.org", Definition: crd, ResourceVersion: "7", Versions: []string{"v0", "v1"}, Storage: "v1", Follows: true, Stale: []string{"v0"},
		}
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		seen    world.Migrating
		state   step.State
		changes []string
		cause   string
	}{
		"the storage version goes: flip it first": {
			seen:  at(func(m *world.Migrating) { m.Storage, m.Flip = "v0", true }),
			state: step.Pending,
			changes: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/versions/0/storage","value":false},` +
				`{"op":"replace","path":"/spec/versions/1/storage","value":true}]`},
		},
		"the API server has not taken notice yet: write nothing": {
			seen: at(func(m *world.Migrating) { m.Follows = false }), state: step.Waiting,
		},
		"an object is written as it is": {
			seen: at(func(m *world.Migrating) { m.Open = []world.StoredObject{{Ref: thing, ResourceVersion: "3"}} }), state: step.Pending, changes: []string{`{}`},
		},
		"an object is repaired, guarded by its resource version": {
			seen: at(func(m *world.Migrating) {
				m.Open = []world.StoredObject{{
					Ref: thing, ResourceVersion: "3", Owners: []metav1.OwnerReference{{APIVersion: "example.org/v0", Kind: "Parent", Name: "p", UID: "u"}},
					Fields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Apply", APIVersion: "example.org/v0", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
				}}
			}),
			state: step.Pending,
			changes: []string{`{"metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"example.org/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}],` +
				`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Parent","name":"p","uid":"u"}],"resourceVersion":"3"}}`},
		},
		"a refused object is a cause, and is tried again": {
			seen:  at(func(m *world.Migrating) { m.Open = []world.StoredObject{{Ref: thing, Refused: "frozen"}} }),
			state: step.Pending, changes: []string{`{}`}, cause: "Thing ns/a can't be written as it is: frozen",
		},
		"all objects are written: trim the status": {
			seen: at(func(m *world.Migrating) { m.Walked = true }), state: step.Pending,
			changes: []string{`{"metadata":{"resourceVersion":"7"},"status":{"storedVersions":["v1"]}}`},
		},
		"objects can't be read: wait for the webhook": {
			seen: at(func(m *world.Migrating) { m.Unreadable = "no answer" }), state: step.Waiting, cause: "Objects of things.example.org can't be read: no answer",
		},
		"nothing is left": {
			seen: at(func(m *world.Migrating) { m.Walked, m.Stale = true, nil }), state: step.Done,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &migrate{base: base{id: "migrate/x/v1"}, resources: []v1alpha1.Migration{want}}
			w := &world.World{Sets: map[string]world.Set{s.id: {Migrating: []world.Migrating{c.seen}}}}
			p := s.Progress(w)
			if p.State != c.state {
				t.Errorf("the step is %s, want %s (%s)", p.State, c.state, p.Detail)
			}
			cause := ""
			if len(p.Causes) > 0 {
				cause = p.Causes[0].Message
			}
			if cause != c.cause {
				t.Errorf("cause %q, want %q", cause, c.cause)
			}
			r := &actuate.Recorder{}
			if err := s.Apply(t.Context(), w, r); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, call := range r.Calls() {
				got = append(got, call.Patch)
			}
			if diff := cmp.Diff(c.changes, got); diff != "" {
				t.Errorf("changes, -want +got:\n%s", diff)
			}
		})
	}
}
