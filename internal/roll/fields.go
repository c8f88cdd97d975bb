// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	_ "embed" // the field map is part of the binary
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/world"
)

//go:embed fields.yaml
var builtIn []byte

// HostsBareMetal is the value of FieldMap.Hosts for Machines that run on BareMetalHosts.
const HostsBareMetal = "BareMetalHost"

// FieldMap says which fields of a machine template carry the image.
type FieldMap struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Versions are the API versions that it is for; none means all.
	Versions []string `json:"versions,omitempty"`
	// When is a path that the template has to have.
	When []string `json:"when,omitempty"`
	// Hosts is HostsBareMetal where Machines run on hosts from a stock.
	Hosts string `json:"hosts,omitempty"`
	// Clear are paths that are removed before the fields are set.
	Clear [][]string `json:"clear,omitempty"`
	// Needs is a value that the image must have, where several fields share it.
	Needs  string  `json:"needs,omitempty"`
	Fields []Field `json:"fields"`
	Note   string  `json:"note,omitempty"`
	// Sources are addresses where the fields are documented.
	Sources []string `json:"sources"`
}

// Field is one field and what of a catalog entry goes there.
type Field struct {
	Path     []string `json:"path"`
	Value    string   `json:"value"`
	Required bool     `json:"required,omitempty"`
}

// Maps are the kinds of templates whose images can be changed.
type Maps []FieldMap

// BuiltIn returns the maps that this version of Capstan knows.
func BuiltIn() (Maps, error) { return ParseMaps("fields.yaml", builtIn) }

// ParseMaps reads and judges a file of field maps. name is how errors call it.
func ParseMaps(name string, data []byte) (Maps, error) {
	var file struct {
		Maps Maps `json:"maps"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for i := range file.Maps {
		if err := file.Maps[i].judge(); err != nil {
			return nil, fmt.Errorf("%s: map %d (%s): %w", name, i+1, file.Maps[i].Kind, err)
		}
	}
	return file.Maps, nil
}

func (m *FieldMap) judge() error {
	switch {
	case m.Group == "" || m.Kind == "":
		return errors.New("group or kind is missing")
	case len(m.Fields) == 0:
		return errors.New("it has no fields")
	case m.Hosts != "" && m.Hosts != HostsBareMetal:
		return fmt.Errorf("hosts %q is not %s", m.Hosts, HostsBareMetal)
	case m.Needs != "" && !known(m.Needs):
		return fmt.Errorf("needs %q is no value of an image", m.Needs)
	}
	for _, f := range m.Fields {
		if len(f.Path) < 2 || !known(f.Value) {
			return fmt.Errorf("field %s with value %q: a path of two parts at least and a known value are needed", strings.Join(f.Path, "."), f.Value)
		}
	}
	return nil
}

// For returns the map for a template, or why there is none.
func (m Maps) For(template *unstructured.Unstructured) (*FieldMap, error) {
	gvk := template.GroupVersionKind()
	seen := false
	for i := range m {
		f := &m[i]
		if f.Group != gvk.Group || f.Kind != gvk.Kind || len(f.Versions) > 0 && !slices.Contains(f.Versions, gvk.Version) {
			continue
		}
		seen = true
		if _, found, err := unstructured.NestedFieldNoCopy(template.Object, f.When...); len(f.When) == 0 || found && err == nil {
			return f, nil
		}
	}
	ref := world.RefOf(template)
	if seen {
		return nil, problem.Blocked("NoFieldMap", "None of the ways in which a %s names its image is in %s", gvk.Kind, ref).
			WithRemedy("look at it: kubectl -n %s get %s %s -o yaml", ref.Namespace, resource(gvk), ref.Name).WithObject(ref.String())
	}
	return nil, problem.Blocked("NoFieldMap", "Where a %s (%s) names its image is not known, so %s can't get another one", gvk.Kind, gvk.GroupVersion(), ref).
		WithRemedy("a field map says it: group, kind, and the paths of the image's fields, as in internal/roll/fields.yaml; `--field-map FILE` will read one").
		WithObject(ref.String())
}

func resource(gvk schema.GroupVersionKind) string {
	return strings.ToLower(gvk.Kind) + "." + gvk.Group
}

// Set writes an image's fields to a template.
func (m *FieldMap) Set(template *unstructured.Unstructured, image *v1alpha1.NodeImage) error {
	if missing := m.missing(image); missing != "" {
		return problem.Blocked("ImageIncomplete", "Image %s has no %s, which a %s needs", image.Name, missing, m.Kind).
			WithRemedy("add it to the catalog entry: kubectl edit nodeimage %s", image.Name).WithObject("NodeImage " + image.Name)
	}
	for _, path := range m.Clear {
		unstructured.RemoveNestedField(template.Object, path...)
	}
	for _, f := range m.Fields {
		v := value(image, f.Value)
		if v == "" {
			unstructured.RemoveNestedField(template.Object, f.Path...)
			continue
		}
		if err := unstructured.SetNestedField(template.Object, v, f.Path...); err != nil {
			return fmt.Errorf("set %s of %s: %w", strings.Join(f.Path, "."), world.RefOf(template), err)
		}
	}
	return nil
}

// Read returns what a template has in the fields of the image, by the name of the value.
func (m *FieldMap) Read(template *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, f := range m.Fields {
		if s, found, err := unstructured.NestedString(template.Object, f.Path...); err == nil && found && s != "" {
			out[f.Value] = s
		}
	}
	return out
}

// missing names the value that the image lacks, empty for none.
func (m *FieldMap) missing(image *v1alpha1.NodeImage) string {
	if m.Needs != "" && value(image, m.Needs) == "" {
		return m.Needs
	}
	for _, f := range m.Fields {
		if f.Required && value(image, f.Value) == "" {
			return f.Value
		}
	}
	return ""
}

func known(name string) bool {
	return slices.Contains([]string{"url", "checksum", "checksumType", "format", "id", "name", "uuid", "label"}, name)
}

// value returns one value of a catalog entry by its name in a field map.
func value(image *v1alpha1.NodeImage, name string) string {
	s := image.Spec
	switch name {
	case "url":
		return s.URL
	case "checksum":
		return s.Checksum
	case "checksumType":
		return s.ChecksumType
	case "format":
		return s.Format
	case "id":
		return s.ID
	case "name":
		return image.Name
	case "uuid":
		if isUUID(s.ID) {
			return s.ID
		}
	case "label":
		if !isUUID(s.ID) {
			return s.ID
		}
	}
	return ""
}

func isUUID(s string) bool {
	return regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`).MatchString(s)
}
