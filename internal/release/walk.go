// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds how many YAML nodes are looked at, aliases counted each time, so that a small file of aliases within
// aliases can't keep a reader busy.
const maxNodes = 200_000

// walker turns a YAML tree into plain values, led by a Go type: it notes the line of each field and records what does
// not fit the type. The usual decoders name no lines and stop at the first fault.
type walker struct {
	faults *faults
	lines  map[string]int
	budget int
}

// value returns the content of a node as the type wants it, or nil where the node is null or does not fit.
func (w *walker) value(n *yaml.Node, t reflect.Type, path string) any {
	if w.budget--; w.budget < 0 {
		if w.budget == -1 {
			w.faults.add("", ReasonTooLarge, "the file has more than %d values", maxNodes)
		}
		return nil
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isNull(n):
		return nil
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return w.opaque(n, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.object(n, t, path)
	case reflect.Map:
		return w.mapping(n, t.Elem(), path)
	case reflect.Slice:
		return w.list(n, t.Elem(), path)
	case reflect.String:
		return w.text(n, path)
	case reflect.Bool:
		return scalar[bool](w, n, path, "!!bool", "true or false")
	default:
		return scalar[int64](w, n, path, "!!int", "a whole number")
	}
}

// object reads a mapping whose keys are the JSON fields of a struct.
func (w *walker) object(n *yaml.Node, t reflect.Type, path string) any {
	fields := map[string]reflect.Type{}
	names := jsonFields(t, fields)
	result := map[string]any{}
	w.entries(n, path, func(key, value *yaml.Node) {
		field, ok := fields[key.Value]
		if !ok {
			w.unknown(key, path, names)
			return
		}
		at := child(path, key.Value)
		w.lines[at] = key.Line
		if v := w.value(value, field, at); v != nil {
			result[key.Value] = v
		}
	})
	return result
}

// mapping reads a mapping with free keys.
func (w *walker) mapping(n *yaml.Node, t reflect.Type, path string) any {
	result := map[string]any{}
	w.entries(n, path, func(key, value *yaml.Node) {
		at := child(path, key.Value)
		w.lines[at] = key.Line
		if v := w.value(value, t, at); v != nil {
			result[key.Value] = v
		}
	})
	return result
}

// entries calls f for each entry of a mapping that is given once.
func (w *walker) entries(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, path, "a mapping")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := child(path, key.Value)
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			w.lines[at] = key.Line
			w.faults.add(at, ReasonWrongType, "a field name has to be plain text").next("write the fields out")
			continue
		}
		if first, ok := seen[key.Value]; ok {
			w.faults.add(at, ReasonDuplicateField, "is given twice, first on line %d", first).line = key.Line
			continue
		}
		seen[key.Value] = key.Line
		f(key, n.Content[i+1])
	}
}

// list reads a sequence.
func (w *walker) list(n *yaml.Node, t reflect.Type, path string) any {
	if n.Kind != yaml.SequenceNode {
		w.wrongType(n, path, "a list")
		return nil
	}
	result := []any{}
	for i, entry := range n.Content {
		at := item(path, i)
		w.lines[at] = entry.Line
		v := w.value(entry, t, at)
		if v == nil && isNull(entry) {
			w.faults.add(at, ReasonWrongType, "is empty")
		}
		result = append(result, v)
	}
	return result
}

// text reads a value that YAML takes for text. A version such as 1.14 would lose digits as a number, so nothing else is
// turned into text.
func (w *walker) text(n *yaml.Node, path string) any {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		w.wrongType(n, path, "text")
		return nil
	}
	return n.Value
}

// scalar reads a value that YAML takes for the given tag.
func scalar[T any](w *walker, n *yaml.Node, path, tag, want string) any {
	var value T
	if n.Kind != yaml.ScalarNode || n.ShortTag() != tag || n.Decode(&value) != nil {
		w.wrongType(n, path, want)
		return nil
	}
	return value
}

// opaque reads what has its own JSON form, such as a time.
func (w *walker) opaque(n *yaml.Node, path string) any {
	if n.Kind != yaml.ScalarNode {
		w.wrongType(n, path, "a single value")
		return nil
	}
	return n.Value
}

func (w *walker) wrongType(n *yaml.Node, path, want string) {
	f := w.faults.add(path, ReasonWrongType, "want %s, got %s", want, describeNode(n))
	if want == "text" && n.Kind == yaml.ScalarNode {
		f.next("put it in quotes: %q", n.Value)
	}
}

func (w *walker) unknown(key *yaml.Node, path string, names []string) {
	at := child(path, key.Value)
	w.lines[at] = key.Line
	f := w.faults.add(at, ReasonUnknownField, "there is no such field")
	if guess := nearest(key.Value, names); guess != "" {
		f.next("did you mean %q?", guess)
	}
}

// jsonFields collects the JSON names and types of a struct's fields, those of inlined structs among them.
func jsonFields(t reflect.Type, into map[string]reflect.Type) []string {
	var names []string
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && strings.Contains(options, "inline") {
			names = append(names, jsonFields(field.Type, into)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		into[name] = field.Type
		names = append(names, name)
	}
	return names
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describeNode names what stands in the file: "a list", `text "x"`, "number 1.14".
func describeNode(n *yaml.Node) string {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.MappingNode {
		return "a mapping"
	}
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	value := n.Value
	if len(value) > 60 {
		value = value[:57] + "..."
	}
	switch n.ShortTag() {
	case "!!str":
		return "text \"" + value + "\""
	case "!!int", "!!float":
		return "number " + value
	case "!!bool":
		return "boolean " + value
	case "!!null":
		return "nothing"
	}
	return "\"" + value + "\""
}
