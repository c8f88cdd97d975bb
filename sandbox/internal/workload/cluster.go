// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed cluster.yaml.tmpl
var manifest string

// fieldOwner owns what this package applies.
const fieldOwner = "sandbox"

// Cluster describes one workload cluster.
type Cluster struct {
	Name          string
	Namespace     string
	Kubernetes    string
	ControlPlanes int
	Workers       int
	// Startup is how long each simulated part of a machine takes to start.
	Startup time.Duration
}

// Objects returns the cluster's objects in the order they are applied: what is referred to may come later, Cluster API waits for it.
func (c Cluster) Objects() ([]*unstructured.Unstructured, error) {
	t, err := template.New("cluster").Option("missingkey=error").Parse(manifest)
	if err != nil {
		return nil, fmt.Errorf("parse cluster template: %w", err)
	}
	var text bytes.Buffer
	if err := t.Execute(&text, c); err != nil {
		return nil, fmt.Errorf("render cluster %s: %w", c.Name, err)
	}
	var objects []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	for {
		u := &unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode cluster %s: %w", c.Name, err)
		}
		objects = append(objects, u)
	}
}

// Apply writes the cluster's objects.
func (c Cluster) Apply(ctx context.Context, client dynamic.Interface) error {
	objects, err := c.Objects()
	if err != nil {
		return err
	}
	for _, u := range objects {
		r := client.Resource(resourceOf(u.GroupVersionKind())).Namespace(u.GetNamespace())
		if _, err := r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}); err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
	}
	return nil
}

// resourceOf guesses the resource of a kind; it is right for every kind in the template.
func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := apimeta.UnsafeGuessKindToResource(gvk)
	return plural
}
