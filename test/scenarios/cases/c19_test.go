// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC19_ObjectsThatDoNotSatisfyTheSchema(t *testing.T) {
	t.Parallel()
	loose := "{type: object, properties: {conditions: {type: array, items: {type: object, properties: {reason: {type: string}, type: {type: string}}}}}}"
	strict := "{type: object, required: [conditions], properties: {conditions: {type: array, items: {type: object, required: [reason], properties: {reason: {type: string, pattern: '^[A-Z].*'}, type: {type: string}}}}}}"
	for name, c := range map[string]struct {
		before, after []ver
		objects       string
		says          []string
	}{
		"a pattern that a stored status does not match": {
			before: []ver{{name: "v1", storage: true, status: loose}}, after: []ver{{name: "v1", storage: true, status: strict}},
			objects: thingYAML("v1", "M3", "ns", "frozen", `status: {conditions: [{type: Ready, reason: ""}]}`) +
				thingYAML("v1", "M3", "ns", "fine", `status: {conditions: [{type: Ready, reason: Good}]}`),
			says: []string{"M3 ns/frozen", "status.conditions[0].reason", "^[A-Z].*"},
		},
		"a field that is required from now on": {
			before: []ver{{name: "v1", storage: true, status: loose}}, after: []ver{{name: "v1", storage: true, status: strict}},
			objects: thingYAML("v1", "M3", "ns", "frozen", `status: {}`),
			says:    []string{"M3 ns/frozen", "status.conditions", "Required value"},
		},
		"a CEL rule": {
			before: []ver{{name: "v1", storage: true, spec: "{type: object, properties: {min: {type: integer}, max: {type: integer}}}"}},
			after: []ver{{name: "v1", storage: true, spec: "{type: object, properties: {min: {type: integer}, max: {type: integer}}, " +
				`x-kubernetes-validations: [{rule: "self.min <= self.max", message: "min must not exceed max"}]}`}},
			objects: thingYAML("v1", "M3", "ns", "frozen", `spec: {min: 3, max: 1}`),
			says:    []string{"M3 ns/frozen", "spec", "min must not exceed max"},
		},
		"in the version that will be stored, which is served already": {
			before:  []ver{{name: "v1", storage: true}, {name: "v2"}},
			after:   []ver{{name: "v1"}, {name: "v2", storage: true, spec: "{type: object, required: [size], properties: {size: {type: integer}}}"}},
			objects: thingYAML("v1", "M3", "ns", "frozen", `spec: {a: b}`),
			says:    []string{"M3 ns/frozen", "spec.size", "Required value"},
		},
		"in the version that will be stored, which is new": {
			before:  []ver{{name: "v1", storage: true}},
			after:   []ver{{name: "v1"}, {name: "v2", storage: true, spec: "{type: object, required: [size], properties: {size: {type: integer, enum: [1, 2]}}}"}},
			objects: thingYAML("v1", "M3", "ns", "frozen", `spec: {size: 7}`),
			says:    []string{"M3 ns/frozen", "spec.size", `supported values: "1", "2"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, apitest.Options{})
			b.ready(t, kindYAML("m3s", "M3", c.before...), c.objects)
			dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("m3s", "M3", c.after...)))
			r := b.capstan(t, "plan", dir)
			b.refused(t, r, append([]string{"CAP-CRD-SCHEMA"}, c.says...)...)
			lacks(t, r, "ns/fine does not")
			b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), "CAP-CRD-SCHEMA")
		})
	}
}

// TestC19_WhatDoesNotBlock: defaults make up for what is required, fields that the schema does not have are dropped, and an
// object that is wrong by the live CRD already is not made worse.
func TestC19_WhatDoesNotBlock(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.ready(t, kindYAML("m3s", "M3", ver{name: "v1", storage: true}),
		thingYAML("v1", "M3", "ns", "defaulted", "spec: {extra: 1}")+thingYAML("v1", "M3", "ns", "wrong", "spec: {mode: c}"),
		kindYAML("m3s", "M3", ver{name: "v1", storage: true, spec: "{type: object, properties: {mode: {type: string, enum: [a, b]}}}"}))
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("m3s", "M3", ver{
		name: "v1", storage: true, spec: "{type: object, required: [size], properties: {mode: {type: string, enum: [a, b]}, size: {type: integer, default: 1}}}",
	})))
	want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone, "WARN  CAP-CRD-SCHEMA", "1 object of m3s", "M3 ns/wrong")
}

// TestC19_Many names the first and counts the others.
func TestC19_Many(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	made := ""
	for i := range 12 {
		made += thingYAML("v1", "M3", "ns", fmt.Sprint("m-", i+10), "spec: {a: b}")
	}
	b.ready(t, kindYAML("m3s", "M3", ver{name: "v1", storage: true}), made)
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", kindYAML("m3s", "M3", ver{
		name: "v1", storage: true, spec: "{type: object, required: [size], properties: {size: {type: integer}}}",
	})))
	b.refused(t, b.capstan(t, "plan", dir), "M3 ns/m-10", "7 more of its objects")
	want(t, b.capstan(t, "upgrade", dir, "--yes", "--accept", "CAP-CRD-SCHEMA=nobody touches them"), problem.ExitDone)
}
