// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// read returns all settings of an object. Two objects that mean the same have the same settings, whichever way it is
// written and whatever the API server filled in.
func read(u *unstructured.Unstructured) map[Setting]Value {
	out := map[Setting]Value{}
	if u == nil {
		return out
	}
	if u.GetKind() == "ConfigMap" {
		data, _, _ := unstructured.NestedMap(u.Object, "data")
		for key, v := range data {
			out[Setting{Kind: Data, Name: key}] = set(encoded(v))
		}
		return out
	}
	if u.GetKind() != "DaemonSet" {
		replicas, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "replicas")
		if !found || replicas == nil {
			replicas = int64(1)
		}
		out[Setting{Kind: Replicas}] = set(encoded(replicas))
	}
	readPod(podSpec(u), out)
	return out
}

func podSpec(u *unstructured.Unstructured) map[string]any {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec")
	spec, _ := v.(map[string]any)
	return spec
}

// podFields are fields of a Pod that people set as a whole and that have no defaults.
func podFields() []string {
	return []string{"affinity", "hostNetwork", "imagePullSecrets", "priorityClassName"}
}

func readPod(spec map[string]any, out map[Setting]Value) {
	for _, c := range containers(spec) {
		readContainer(c, out)
	}
	selector, _ := spec["nodeSelector"].(map[string]any)
	for key, v := range selector {
		out[Setting{Kind: NodeSelector, Name: key}] = set(encoded(v))
	}
	for _, t := range entries(spec["tolerations"]) {
		name := encoded(or(t["key"], "any"))
		if effect, ok := t["effect"].(string); ok {
			name += ":" + effect
		}
		out[Setting{Kind: Toleration, Name: name}] = set(encoded(t))
	}
	for _, field := range podFields() {
		if v, ok := spec[field]; ok && v != nil && v != false {
			out[Setting{Kind: Pod, Name: field}] = set(encoded(v))
		}
	}
}

// containers returns the containers of a Pod, those that run first included.
func containers(spec map[string]any) []map[string]any {
	return append(entries(spec["containers"]), entries(spec["initContainers"])...)
}

func entries(list any) []map[string]any {
	items, _ := list.([]any)
	var out []map[string]any
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func or(v, instead any) any {
	if v == nil {
		return instead
	}
	return v
}

func readContainer(c map[string]any, out map[Setting]Value) {
	name, _ := c["name"].(string)
	if image, ok := c["image"].(string); ok {
		out[Setting{Kind: Image, Container: name}] = set(image)
	}
	for _, f := range flags(c) {
		maps.Copy(out, f.settings(name))
	}
	for _, e := range entries(c["env"]) {
		variable, _ := e["name"].(string)
		out[Setting{Kind: Environment, Container: name, Name: variable}] = set(variableValue(e))
	}
	readResources(name, c, out)
}

func readResources(container string, c map[string]any, out map[Setting]Value) {
	resources, _ := c["resources"].(map[string]any)
	for _, side := range []string{"limits", "requests"} {
		amounts, _ := resources[side].(map[string]any)
		for what, v := range amounts {
			out[Setting{Kind: Resource, Container: container, Name: side + "." + what}] = set(amount(v))
		}
	}
}

// amount writes a quantity in its usual form: 1000m is 1.
func amount(v any) string {
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return encoded(v)
	}
	return q.String()
}

// variableValue is the value of an environment variable, or where it is from. The version that the API server fills in
// for a field is left out.
func variableValue(e map[string]any) string {
	from, ok := e["valueFrom"].(map[string]any)
	if !ok {
		return encoded(or(e["value"], ""))
	}
	if field, ok := from["fieldRef"].(map[string]any); ok {
		return "field " + encoded(field["fieldPath"])
	}
	return "from " + encoded(from)
}

// featureGates is the usual name of the argument with feature gates.
const featureGates = "--feature-gates"

// flag is one argument of a container with all its values.
type flag struct {
	// name is with its dashes; empty for what is no flag.
	name string
	// values has one entry for each time that the flag is given; nil for a flag without a value.
	values []string
	// raw are the words as they stand.
	raw []any
}

// flags reads the arguments of a container, those in its command included, each name once. Words that belong to no flag
// are one of their own without a name.
func flags(c map[string]any) []*flag {
	var out []*flag
	byName := map[string]*flag{}
	get := func(name string) *flag {
		f := byName[name]
		if f == nil {
			f = &flag{name: name}
			byName[name], out = f, append(out, f)
		}
		return f
	}
	for _, field := range []string{"command", "args"} {
		list, _ := c[field].([]any)
		for _, w := range words(list) {
			f := get(w.name)
			f.raw = append(f.raw, w.raw...)
			if w.hasValue {
				f.values = append(f.values, w.value)
			}
		}
	}
	return out
}

// word is one flag with its value, as it stands in a list of arguments.
type word struct {
	name, value string
	hasValue    bool
	raw         []any
}

// words groups a list of arguments into flags: "--a=b", "--a b", "--a".
func words(list []any) []word {
	var out []word
	for i := 0; i < len(list); i++ {
		text := encoded(list[i])
		name, value, hasValue := strings.Cut(text, "=")
		switch {
		case !strings.HasPrefix(text, "-"):
			out = append(out, word{value: text, hasValue: true, raw: list[i : i+1]})
		case hasValue || i+1 == len(list) || strings.HasPrefix(encoded(list[i+1]), "-"):
			out = append(out, word{name: name, value: value, hasValue: hasValue, raw: list[i : i+1]})
		default:
			out = append(out, word{name: name, value: encoded(list[i+1]), hasValue: true, raw: list[i : i+2]})
			i++
		}
	}
	return out
}

// isGates tells whether a flag holds feature gates.
func isGates(name string) bool { return strings.HasSuffix(name, "feature-gates") }

// settings returns what the flag sets: itself, or each feature gate in it.
func (f *flag) settings(container string) map[Setting]Value {
	out := map[Setting]Value{}
	if !isGates(f.name) {
		name := f.name
		if name == "" {
			name = "words"
		}
		out[Setting{Kind: Argument, Container: container, Name: name}] = set(strings.Join(f.values, ","))
		return out
	}
	for _, g := range f.gates() {
		out[Setting{Kind: Gate, Container: container, Flag: f.name, Name: g.name}] = set(g.value)
	}
	return out
}

// gate is one feature gate with its value.
type gate struct{ name, value string }

// gates returns the feature gates of a flag in their order; of one that is given twice the last counts, as it does for
// the program.
func (f *flag) gates() []gate {
	var out []gate
	for part := range strings.SplitSeq(strings.Join(f.values, ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" {
			continue
		}
		g := gate{name: name, value: truth(value)}
		again := false
		for i := range out {
			if out[i].name == name {
				out[i], again = g, true
			}
		}
		if !again {
			out = append(out, g)
		}
	}
	return out
}

// truth writes a boolean as Go's flag parsing understands it.
func truth(v string) string {
	switch strings.TrimSpace(v) {
	case "1", "t", "T", "true", "TRUE", "True":
		return "true"
	case "0", "f", "F", "false", "FALSE", "False":
		return "false"
	}
	return strings.TrimSpace(v)
}
