// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Edit changes one object of a component.
type Edit func(component string, o *unstructured.Unstructured)

// Variant copies a release under another version and changes objects of its providers on the way.
func Variant(t *testing.T, from, version string, edits ...Edit) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), version)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "release.yaml")
	r := v1alpha1.Release{}
	if err := yaml.UnmarshalStrict(Read(t, file), &r); err != nil {
		t.Fatal(err)
	}
	r.Name, r.Spec.Version, r.Spec.UpgradeFrom = "variant-"+version, version, nil
	for i := range r.Spec.Components {
		c := &r.Spec.Components[i]
		if c.Type != v1alpha1.ComponentProvider {
			continue
		}
		c.Version = version
		path := filepath.Join(dir, c.Source.Path)
		data := rewrite(t, c.Name, Read(t, path), edits)
		Write(t, path, data)
		c.Source.Digest = digest(data)
	}
	data, err := yaml.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	Write(t, file, data)
	return dir
}

// Add puts documents at the end of a component's manifests.
func Add(t *testing.T, dir, component, documents string) {
	t.Helper()
	file := filepath.Join(dir, "release.yaml")
	r := v1alpha1.Release{}
	if err := yaml.UnmarshalStrict(Read(t, file), &r); err != nil {
		t.Fatal(err)
	}
	for i := range r.Spec.Components {
		c := &r.Spec.Components[i]
		if c.Name != component {
			continue
		}
		path := filepath.Join(dir, c.Source.Path)
		data := append(Read(t, path), documents...)
		Write(t, path, data)
		c.Source.Digest = digest(data)
	}
	data, err := yaml.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	Write(t, file, data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func rewrite(t *testing.T, component string, data []byte, edits []Edit) []byte {
	t.Helper()
	var out [][]byte
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) == 0 {
			continue
		}
		for _, e := range edits {
			e(component, o)
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return bytes.Join(out, []byte("---\n"))
}

// Read returns the content of a file.
func Read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path) //nolint:gosec // a file of the test's own
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Write writes a file.
func Write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Revision makes every controller roll without changing what it does.
func Revision(value string) Edit {
	return func(_ string, o *unstructured.Unstructured) {
		if o.GetKind() == "Deployment" {
			Set(o, value, "spec", "template", "metadata", "annotations", "scenario/revision")
		}
	}
}

// Container changes the manager container of one component.
func Container(component string, change func(c map[string]any)) Edit {
	return func(name string, o *unstructured.Unstructured) {
		if name != component || o.GetKind() != "Deployment" {
			return
		}
		list, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil {
			panic(err)
		}
		manager, ok := list[0].(map[string]any)
		if !ok {
			panic("a container is no object")
		}
		change(manager)
		if err := unstructured.SetNestedSlice(o.Object, list, "spec", "template", "spec", "containers"); err != nil {
			panic(err)
		}
	}
}

// Set sets a field of an object.
func Set(o *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}
