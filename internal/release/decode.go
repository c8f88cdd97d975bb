// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// releaseKind is the kind of a release document.
const releaseKind = "Release"

// Parse reads and validates a release. name is the file name used in messages.
func Parse(name string, data []byte) (*v1alpha1.Release, error) {
	r, where, err := Decode(name, data)
	if err != nil {
		return nil, err
	}
	if err := Validate(r, where); err != nil {
		return nil, err
	}
	return r, nil
}

// Decode reads a release strictly: one YAML document, no unknown or repeated field, no value of another type. It does
// not judge the content; Validate does.
func Decode(name string, data []byte) (*v1alpha1.Release, *Positions, error) {
	return DecodeKind[v1alpha1.Release](name, data, releaseKind, "release")
}

// DecodeKind reads an object of one of Capstan's other kinds as strictly as a release. noun is what people call it.
func DecodeKind[T any](name string, data []byte, kind, noun string) (*T, *Positions, error) {
	root, err := parseOne(name, data, kind, noun)
	if err != nil {
		return nil, nil, err
	}
	where := &Positions{file: name, lines: map[string]int{"": root.Line}}
	found := &faults{where: where}
	w := &walker{faults: found, lines: where.lines, budget: maxNodes}
	checkKind(root, w, kind)
	if err := found.err(); err != nil {
		return nil, nil, err
	}
	content := w.value(root, reflect.TypeFor[T](), "")
	if err := found.err(); err != nil {
		return nil, nil, err
	}
	out := new(T)
	encoded, err := json.Marshal(content)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", noun, err)
	}
	if err := json.Unmarshal(encoded, out); err != nil {
		return nil, nil, problem.Usage(ReasonWrongType, name, "the %s can't be read: %v", noun, err).WithCause(err)
	}
	return out, where, nil
}

// parseOne returns the root of the only document.
func parseOne(name string, data []byte, kind, noun string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root *yaml.Node
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, message := splitYAMLError(err)
			return nil, problem.Usage(ReasonNotYAML, place(name, line), "not valid YAML: %s", message).WithCause(err)
		}
		if len(document.Content) == 0 || isNull(document.Content[0]) {
			continue
		}
		if root != nil {
			return nil, problem.Usage(ReasonManyDocuments, place(name, document.Content[0].Line),
				"a second YAML document begins here, %s is exactly one", article(noun)).WithRemedy("keep one document in the file")
		}
		root = document.Content[0]
	}
	if root == nil {
		return nil, problem.Usage(emptyReason(kind), name, "the file is empty, %s was expected", article(noun)).
			WithRemedy("write a document with apiVersion: %s and kind: %s", v1alpha1.GroupVersion, kind)
	}
	return root, nil
}

// emptyReason returns the reason of a file without content.
func emptyReason(kind string) string {
	if kind == releaseKind {
		return ReasonEmpty
	}
	return kind + "Empty"
}

// article puts the article before a noun.
func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// checkKind makes sure that the document says it is of the kind before its fields are judged, so that a file of another
// kind gets one fitting message instead of one for each field.
func checkKind(root *yaml.Node, w *walker, kind string) {
	if root.Kind != yaml.MappingNode {
		w.wrongType(root, "", "a "+kind+" object")
		return
	}
	want := map[string]string{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind}
	for _, field := range []string{"apiVersion", "kind"} {
		key, value := find(root, field)
		if value == nil {
			w.faults.add(field, ReasonWrongKind, "is missing").next("add %s: %s", field, want[field])
			continue
		}
		w.lines[field] = key.Line
		if value.Kind != yaml.ScalarNode || value.Value != want[field] {
			w.faults.add(field, ReasonWrongKind, "is %s, want %s", describeNode(value), want[field])
		}
	}
}

// find returns the key and value nodes of a field in a mapping.
func find(mapping *yaml.Node, field string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == field {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// splitYAMLError takes the line out of a message of the YAML library; the line is 0 when it names none.
func splitYAMLError(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	parts := regexp.MustCompile(`^line ([0-9]+): (?s:(.*))$`).FindStringSubmatch(message)
	if parts == nil {
		return 0, message
	}
	line, convErr := strconv.Atoi(parts[1])
	if convErr != nil {
		return 0, message
	}
	return line, parts[2]
}

// place names a line of a file.
func place(file string, line int) string {
	if line <= 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
