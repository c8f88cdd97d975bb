// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/schema"
)

func TestTakesAll(t *testing.T) {
	t.Parallel()
	const keeping = "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {%s}}"
	for name, c := range map[string]struct {
		live, next string
		want       bool
	}{
		"the same":                               {"{type: string}", "{type: string}", true},
		"other words":                            {"{type: string, description: a}", "{type: string, description: b}", true},
		"another type":                           {"{type: string}", "{type: integer}", false},
		"a new property":                         {"{type: object, properties: {}}", "{type: object, properties: {a: {type: string, minLength: 1}}}", true},
		"the first property":                     {"{type: object}", "{type: object, properties: {a: {type: string}}}", true},
		"a new property that is required":        {"{type: object, properties: {}}", "{type: object, required: [a], properties: {a: {type: string}}}", false},
		"a new property with a default":          {"{type: object, properties: {}}", "{type: object, properties: {a: {type: object, properties: {b: {type: string, default: x}}}}}", false},
		"a new property that may be there":       {fmt.Sprintf(keeping, ""), fmt.Sprintf(keeping, "a: {type: string}"), false},
		"a property less":                        {"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {}}", false},
		"a property that takes less":             {"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string, maxLength: 3}}}", false},
		"an item that takes less":                {"{type: array, items: {type: string}}", "{type: array, items: {type: string, pattern: a}}", false},
		"an item that takes more":                {"{type: array, items: {type: string, pattern: a}}", "{type: array, items: {type: string}}", true},
		"values that take less":                  {"{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: string, enum: [a]}}", false},
		"values that any become":                 {"{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: true}", false},
		"nothing required any more":              {"{type: object, required: [a, b]}", "{type: object, required: [b]}", true},
		"another required":                       {"{type: object, required: [a]}", "{type: object, required: [a, b]}", false},
		"a value more":                           {"{type: string, enum: [a]}", "{type: string, enum: [b, a]}", true},
		"a value less":                           {"{type: string, enum: [b, a]}", "{type: string, enum: [a]}", false},
		"values at all":                          {"{type: string}", "{type: string, enum: [a]}", false},
		"a higher limit":                         {"{type: integer, maximum: 3}", "{type: integer, maximum: 5}", true},
		"a lower limit":                          {"{type: integer, maximum: 3}", "{type: integer, maximum: 2}", false},
		"a limit at all":                         {"{type: integer}", "{type: integer, maximum: 2}", false},
		"a lower least":                          {"{type: integer, minimum: 3}", "{type: integer, minimum: 2}", true},
		"a higher least":                         {"{type: integer, minimum: 3}", "{type: integer, minimum: 4}", false},
		"no pattern any more":                    {"{type: string, pattern: a}", "{type: string}", true},
		"another pattern":                        {"{type: string, pattern: a}", "{type: string, pattern: b}", false},
		"a rule":                                 {"{type: object}", "{type: object, x-kubernetes-validations: [{rule: 'true'}]}", false},
		"no null any more":                       {"{type: string, nullable: true}", "{type: string}", false},
		"a list whose entries must be different": {"{type: array}", "{type: array, x-kubernetes-list-type: set}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(text string) string {
				return "{metadata: {name: x}, spec: {group: g, versions: [{name: v1, schema: {openAPIV3Schema: " + text + "}}]}}"
			}
			if got := schema.TakesAll(object(t, of(c.next)), "v1", object(t, of(c.live)), "v1"); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
	whole := object(t, crd)
	if !schema.TakesAll(whole, "v1", whole, "v1") {
		t.Error("a schema does not take what it takes")
	}
	if schema.TakesAll(whole, "v1", whole, "v2") || schema.TakesAll(whole, "v2", whole, "v2") || schema.TakesAll(whole, "", whole, "v1") {
		t.Error("without a schema nothing can be told")
	}
}
