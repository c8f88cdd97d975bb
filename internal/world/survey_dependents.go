// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"
)

// TopicDependents are objects that are made for one major version of a component.
const TopicDependents Topic = "The objects that depend on a version"

// AskDependents is one kind of such objects.
type AskDependents struct {
	APIVersion string
	Kind       string
	// FieldPath leads to the version within an object; see Values.
	FieldPath string
}

// Dependent is one value that was found.
type Dependent struct {
	// Ask is the index of what was asked.
	Ask int
	// Ref is the object.
	Ref Ref
	// Value is what its field says.
	Value string
}

// Values returns what an object has at a path, in the order of the object: ".spec.version", ".spec.providers[*].version",
// ".metadata.labels['example.com/release']". Lists are gone through with and without "[*]".
func Values(object map[string]any, path string) []string {
	at := []any{object}
	for _, key := range pathKeys(path) {
		var next []any
		for _, v := range flat(at) {
			if m, ok := v.(map[string]any); ok {
				if child, ok := m[key]; ok {
					next = append(next, child)
				}
			}
		}
		at = next
	}
	var out []string
	for _, v := range flat(at) {
		switch v.(type) {
		case nil, map[string]any:
		default:
			out = append(out, fmt.Sprint(v))
		}
	}
	return out
}

// flat puts the entries of lists in the place of the lists.
func flat(values []any) []any {
	var out []any
	for _, v := range values {
		if list, ok := v.([]any); ok {
			out = append(out, flat(list)...)
			continue
		}
		out = append(out, v)
	}
	return out
}

// pathKeys takes a path apart. A key with dots in it stands in brackets and quotes.
func pathKeys(path string) []string {
	var keys []string
	for rest := strings.Trim(path, "{} "); rest != ""; {
		switch {
		case strings.HasPrefix(rest, "."):
			rest = rest[1:]
		case strings.HasPrefix(rest, "['"), strings.HasPrefix(rest, `["`):
			quote := rest[1:2] + "]"
			key, after, _ := strings.Cut(rest[2:], quote)
			keys, rest = append(keys, key), after
		case strings.HasPrefix(rest, "["):
			_, rest, _ = strings.Cut(rest, "]")
		default:
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			keys, rest = append(keys, rest[:end]), rest[end:]
		}
	}
	return keys
}
