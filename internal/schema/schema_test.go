// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capstan-dev/capstan/internal/schema"
)

const crd = `
metadata: {name: things.example.org}
spec:
  group: example.org
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations: [{rule: "self.metadata.name.startsWith('t')", message: "names begin with t"}]
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations:
            - {rule: "!has(self.max) || self.size <= self.max", message: "size is above max"}
            - {rule: "self.size >= oldSelf.size", message: "size only grows"}
            properties:
              size: {type: integer, default: 1}
              max: {type: integer}
              mode: {type: string, enum: [a, b]}
              names: {type: array, x-kubernetes-list-type: set, items: {type: string, pattern: "^[a-z]+$"}}
  - name: v2
`

func object(tb testing.TB, text string) *unstructured.Unstructured {
	tb.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		tb.Fatal(err)
	}
	return u
}

func TestJudge(t *testing.T) {
	t.Parallel()
	v, err := schema.New(object(t, crd), "v1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   string
		want []schema.Fault
	}{
		"a default makes up for what is required":    {in: "{metadata: {name: t}, spec: {}}"},
		"fields that the schema has not are dropped": {in: "{metadata: {name: t}, spec: {other: 1}, more: 2}"},
		"a null goes where a default is":             {in: "{metadata: {name: t}, spec: {size: null}}"},
		"an enumeration": {
			in: "{metadata: {name: t}, spec: {mode: c}}", want: []schema.Fault{{Path: "spec.mode", Rule: `Unsupported value: "c": supported values: "a", "b"`}},
		},
		"a pattern in a list": {
			in: "{metadata: {name: t}, spec: {names: [a, B]}}", want: []schema.Fault{{Path: "spec.names[1]", Rule: `Invalid value: "B": spec.names[1] in body should match '^[a-z]+$'`}},
		},
		"a set with a value twice": {
			in: "{metadata: {name: t}, spec: {names: [a, a]}}", want: []schema.Fault{{Path: "spec.names[1]", Rule: `Duplicate value: "a"`}},
		},
		"a rule, and not one that compares with before": {
			in: "{metadata: {name: t}, spec: {size: 3, max: 2}}", want: []schema.Fault{{Path: "spec", Rule: `Invalid value: size is above max`}},
		},
		"a rule about the name": {
			in: "{metadata: {name: x}, spec: {}}", want: []schema.Fault{{Path: "(the object)", Rule: `Invalid value: names begin with t`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, v.Judge(t.Context(), object(t, c.in))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestVersionWithoutASchemaTakesEverything(t *testing.T) {
	t.Parallel()
	v, err := schema.New(object(t, crd), "v2")
	if v != nil || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	if _, err := schema.New(object(t, crd), "v3"); err == nil {
		t.Error("a version that is not there is no error")
	}
}
