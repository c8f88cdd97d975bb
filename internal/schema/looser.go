// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TakesAll tells whether a version of a CRD takes every object that a version of another takes, as far as that can be told
// from the schemas alone. Most releases only add fields, so it saves judging the objects one by one.
func TakesAll(next *unstructured.Unstructured, nextVersion string, live *unstructured.Unstructured, liveVersion string) bool {
	to, from := rawSchema(next, nextVersion), rawSchema(live, liveVersion)
	return to != nil && looser(to, from)
}

// looser tells whether a schema, or a part of one, takes all values that another one takes. It says no in case of doubt.
func looser(to, from any) bool {
	a, isMap := to.(map[string]any)
	b, isToo := from.(map[string]any)
	if !isMap || !isToo {
		return reflect.DeepEqual(to, from)
	}
	for _, key := range keysOf(a, b) {
		if !reflect.DeepEqual(a[key], b[key]) && !looserAt(key, a[key], b[key], b) {
			return false
		}
	}
	return true
}

// looserAt tells whether the change of one keyword of a schema takes nothing away. around is the schema that it was in.
func looserAt(key string, to, from any, around map[string]any) bool {
	switch key {
	case "description", "title", "example", "externalDocs":
		return true // says nothing about values
	case "openAPIV3Schema", "items", "additionalProperties":
		return isSchema(to) && isSchema(from) && looser(to, from)
	case "properties":
		return looserProperties(to, from, around)
	case "required":
		return contains(from, to)
	case "enum":
		return to == nil || from != nil && contains(to, from)
	case "maximum", "maxLength", "maxItems", "maxProperties":
		return to == nil || from != nil && compare(to, from) >= 0
	case "minimum", "minLength", "minItems", "minProperties":
		return to == nil || from != nil && compare(to, from) <= 0
	case "pattern", "format", "x-kubernetes-validations":
		return to == nil
	}
	return false
}

// looserProperties tells whether all properties stay and take as much, and new ones meet no values that are there: what a
// schema has not is dropped when an object is read, unless the schema keeps unknown fields.
func looserProperties(to, from any, around map[string]any) bool {
	a, isMap := to.(map[string]any)
	b, _ := from.(map[string]any)
	if !isMap {
		return false
	}
	keeps := around["x-kubernetes-preserve-unknown-fields"] != nil || around["additionalProperties"] != nil || around["x-kubernetes-embedded-resource"] != nil
	for name, property := range a {
		before, known := b[name]
		switch {
		case !known && (keeps || hasDefault(property)):
			return false
		case known && !looser(property, before):
			return false
		}
	}
	for name := range b {
		if _, stays := a[name]; !stays {
			return false
		}
	}
	return true
}

// hasDefault tells whether a value appears where there was none, which rules may not like.
func hasDefault(schema any) bool {
	switch s := schema.(type) {
	case map[string]any:
		for key, value := range s {
			if key == "default" || hasDefault(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(s, hasDefault)
	}
	return false
}

func isSchema(v any) bool {
	_, is := v.(map[string]any)
	return is
}

// contains tells whether a list has every entry of another.
func contains(list, of any) bool {
	all, _ := list.([]any)
	some, isList := of.([]any)
	if !isList && of != nil {
		return false
	}
	return !slices.ContainsFunc(some, func(v any) bool {
		return !slices.ContainsFunc(all, func(w any) bool { return reflect.DeepEqual(v, w) })
	})
}

// compare compares numbers of whatever type.
func compare(a, b any) int { return cmp.Compare(number(a), number(b)) }

func number(v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

func keysOf(maps ...map[string]any) []string {
	var out []string
	for _, m := range maps {
		for key := range m {
			if !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}
