// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// Digest returns the digest of some bytes as releases write it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Encode writes objects as a stream of YAML documents with sorted keys: equal objects in equal order are equal bytes.
func Encode(objects []*unstructured.Unstructured) ([]byte, error) {
	var b bytes.Buffer
	for _, o := range objects {
		encoded, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", objectKey(o), err)
		}
		b.WriteString("---\n")
		b.Write(encoded)
	}
	return b.Bytes(), nil
}

// DecodeObjects reads what Encode wrote.
func DecodeObjects(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, d := range split("", data) {
		content, err := decodeDocument("", d)
		if err != nil {
			return nil, err
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

func digestObjects(objects []*unstructured.Unstructured) (string, error) {
	encoded, err := Encode(objects)
	if err != nil {
		return "", err
	}
	return Digest(encoded), nil
}

// stored is the first document of an encoded component: everything but the objects.
type stored struct {
	Component v1alpha1.Component     `json:"component"`
	Metadata  *clusterctlv1.Metadata `json:"metadata,omitempty"`
	Contract  string                 `json:"contract,omitempty"`
	Inventory *clusterctlv1.Provider `json:"inventory,omitempty"`
	Blanks    []Blank                `json:"blanks,omitempty"`
	Digest    string                 `json:"digest"`
}

// Encode writes a component for storage: a document about it, then one for each object.
func (r *Rendered) Encode() ([]byte, error) {
	head, err := yaml.Marshal(stored{
		Component: r.Component, Metadata: r.Metadata, Contract: r.Contract, Inventory: r.Inventory, Blanks: r.Blanks, Digest: r.Digest,
	})
	if err != nil {
		return nil, fmt.Errorf("encode component %q: %w", r.Component.Name, err)
	}
	objects, err := Encode(r.Objects)
	if err != nil {
		return nil, fmt.Errorf("encode component %q: %w", r.Component.Name, err)
	}
	return append(head, objects...), nil
}

// DecodeRendered reads what Rendered.Encode wrote and makes sure that the objects are those that were written.
func DecodeRendered(data []byte) (*Rendered, error) {
	head, rest, ok := bytes.Cut(data, []byte("\n---\n"))
	if !ok {
		return nil, problem.Blocked(ReasonCorrupt, "a stored component is incomplete")
	}
	var s stored
	if err := yaml.UnmarshalStrict(head, &s); err != nil {
		return nil, problem.Blocked(ReasonCorrupt, "a stored component can't be read: %v", err).WithCause(err)
	}
	objects, err := DecodeObjects(append([]byte("---\n"), rest...))
	if err != nil {
		return nil, problem.Blocked(ReasonCorrupt, "the objects of the stored component %q can't be read: %v", s.Component.Name, err).WithCause(err)
	}
	digest, err := digestObjects(objects)
	if err != nil {
		return nil, err
	}
	if digest != s.Digest {
		return nil, problem.Blocked(ReasonCorrupt, "the stored component %q was changed: its digest is %s, want %s", s.Component.Name, digest, s.Digest)
	}
	return &Rendered{
		Component: s.Component, Objects: objects, Metadata: s.Metadata, Contract: s.Contract, Inventory: s.Inventory, Blanks: s.Blanks, Digest: s.Digest,
	}, nil
}
