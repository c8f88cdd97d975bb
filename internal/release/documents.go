// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/problem"
)

// FileMarker begins the line that names a file where several are joined to one stream. It lets a message name the file
// and the line in it.
const FileMarker = "# capstan.dev/file: "

// Join makes one stream of several files: for each, "---", a line with FileMarker and the name, and the content with a
// newline at its end. The digest of a directory is the sha256 of this, so it can be had, in the release directory, with
//
//	for f in DIRECTORY/*.yaml; do printf -- '---\n# capstan.dev/file: %s\n' "$f"; cat "$f"; done | sha256sum
func Join(names []string, contents [][]byte) []byte {
	var b bytes.Buffer
	for i, name := range names {
		fmt.Fprintf(&b, "---\n%s%s\n", FileMarker, name)
		b.Write(contents[i])
		if !bytes.HasSuffix(contents[i], []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// document is one YAML document of a stream.
type document struct {
	// file is the name of the file it came from.
	file string
	// number counts the documents of the file that have content, from 1.
	number int
	// line is the line of the file on which text begins, from 1.
	line int
	text []byte
}

// where names the place of a line of the document, counted from 1; 0 means its beginning.
func (d document) where(line int) string { return place(d.file, d.line+max(line, 1)-1) }

// split takes a stream apart. Documents without content are left out. In contrast to the usual readers it also takes a
// "---" with something behind it for a separator: they would pass over the whole next document without a word.
func split(file string, data []byte) []document {
	var documents []document
	current := document{file: file, line: 1}
	line, number := 0, 0
	separated := true
	flush := func(next int) {
		if hasContent(current.text) {
			number++
			current.number = number
			documents = append(documents, current)
		}
		current = document{file: file, line: next}
	}
	for text := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		line++
		if name, ok := bytes.CutPrefix(text, []byte(FileMarker)); ok && separated {
			file, line, number = string(bytes.TrimSpace(name)), 0, 0
			current = document{file: file, line: 1}
			continue
		}
		rest, separator := cutSeparator(text)
		if separated = separator; !separator {
			current.text = append(current.text, text...)
			continue
		}
		flush(line)
		current.text = append(current.text, rest...)
	}
	flush(line)
	return documents
}

// cutSeparator tells whether a line ends a document, and what of the next one already stands on it.
func cutSeparator(line []byte) (rest []byte, ok bool) {
	for _, mark := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(line, []byte(mark))
		if found && (len(after) == 0 || strings.ContainsRune(" \t\r\n", rune(after[0]))) {
			return after, true
		}
	}
	return nil, false
}

// hasContent tells whether a document is more than comments, directives and blank lines.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}

// located is an object with the document that it stands in.
type located struct {
	*unstructured.Unstructured
	document document
}

// parseObjects reads every document of a stream as a Kubernetes object; a List becomes its entries.
func parseObjects(component, file string, data []byte) ([]located, error) {
	var objects []located
	for _, d := range split(file, data) {
		content, err := decodeDocument(component, d)
		if err != nil {
			return nil, err
		}
		if content == nil {
			continue
		}
		u := &unstructured.Unstructured{Object: content}
		if u.GetKind() != "List" {
			objects = append(objects, located{u, d})
			continue
		}
		entries, err := entriesOf(component, u, d)
		if err != nil {
			return nil, err
		}
		objects = append(objects, entries...)
	}
	if len(objects) == 0 {
		return nil, problem.Usage(ReasonBadManifest, file, "component %q: there is no Kubernetes object in it", component)
	}
	return objects, checkObjects(component, objects)
}

// decodeDocument reads one document as a mapping; nil stands for a document that is null.
func decodeDocument(component string, d document) (map[string]any, error) {
	encoded, err := yaml.YAMLToJSON(d.text)
	if err != nil {
		line, message := splitYAMLError(err)
		return nil, problem.Usage(ReasonBadManifest, d.where(line), "component %q: document %d is not valid YAML: %s", component, d.number, message).WithCause(err)
	}
	var content any
	if err := utiljson.Unmarshal(encoded, &content); err != nil {
		return nil, problem.Usage(ReasonBadManifest, d.where(0), "component %q: document %d can't be read: %v", component, d.number, err).WithCause(err)
	}
	switch typed := content.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return typed, nil
	}
	return nil, problem.Usage(ReasonBadManifest, d.where(0), "component %q: document %d is not a Kubernetes object but a plain value or list", component, d.number)
}

// entriesOf returns the objects in a List.
func entriesOf(component string, list *unstructured.Unstructured, d document) ([]located, error) {
	var objects []located
	entries, _, err := unstructured.NestedSlice(list.Object, "items")
	if err != nil {
		return nil, problem.Usage(ReasonBadManifest, d.where(0), "component %q: the items of the List in document %d are not a list", component, d.number).WithCause(err)
	}
	for i, entry := range entries {
		content, ok := entry.(map[string]any)
		if !ok {
			return nil, problem.Usage(ReasonBadManifest, d.where(0), "component %q: item %d of the List in document %d is not an object", component, i, d.number)
		}
		objects = append(objects, located{&unstructured.Unstructured{Object: content}, d})
	}
	return objects, nil
}

// checkObjects makes sure that each object can be addressed, and that none is there twice.
func checkObjects(component string, objects []located) error {
	seen := map[string]document{}
	for _, o := range objects {
		if missing := missingIdentity(o.Unstructured); missing != "" {
			return problem.Usage(ReasonBadManifest, o.document.where(0), "component %q: the object in document %d has no %s", component, o.document.number, missing)
		}
		for _, field := range []string{"labels", "annotations"} {
			// Left alone, a value such as yes would make all of them vanish when a label is added.
			if _, _, err := unstructured.NestedStringMap(o.Object, "metadata", field); err != nil {
				return problem.Usage(ReasonBadManifest, o.document.where(0), "component %q: the %s of %s in document %d are not all text", component, field, objectKey(o.Unstructured), o.document.number).
					WithCause(err).WithRemedy("put their values in quotes")
			}
		}
		key := objectKey(o.Unstructured)
		if first, ok := seen[key]; ok {
			return problem.Usage(ReasonDuplicateObject, o.document.where(0), "component %q: %s in document %d is there already, see %s", component, key, o.document.number, first.where(0))
		}
		seen[key] = o.document
	}
	return nil
}

// missingIdentity names the field that an object lacks to be addressed, "" for none.
func missingIdentity(u *unstructured.Unstructured) string {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		if value, _, err := unstructured.NestedString(u.Object, path...); err != nil || value == "" {
			return strings.Join(path, ".")
		}
	}
	return ""
}

// objectKey identifies an object whatever version of its API it is written in.
func objectKey(u *unstructured.Unstructured) string {
	gk := u.GroupVersionKind().GroupKind().String()
	if u.GetNamespace() == "" {
		return gk + " " + u.GetName()
	}
	return gk + " " + u.GetNamespace() + "/" + u.GetName()
}
