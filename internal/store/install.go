// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/problem"
)

const (
	// establishLimit is how long the API server may take to serve our kinds; it takes a second or two.
	establishLimit = 30 * time.Second
	// establishPoll is how often it is asked.
	establishPoll = 200 * time.Millisecond
)

// Install makes the cluster know Capstan's kinds and namespace, and waits until the kinds are served. It is idempotent:
// where everything is there already, the API server writes nothing.
func (s *Store) Install(ctx context.Context) error {
	objects, err := installed()
	if err != nil {
		return err
	}
	for _, obj := range objects {
		apply := client.ApplyConfigurationFromUnstructured(obj)
		if err := s.client.Apply(ctx, apply, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
			return translate("install "+obj.GetKind()+" "+obj.GetName(), err)
		}
	}
	deadline := s.clock.Now().Add(establishLimit)
	for _, obj := range objects {
		if obj.GetKind() != crdKind().Kind {
			continue
		}
		if err := s.awaitServed(ctx, obj.GetName(), deadline); err != nil {
			return err
		}
	}
	return nil
}

// installed returns the CRDs and the namespace.
func installed() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(crd.FS, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		data, err := fs.ReadFile(crd.FS, name)
		if err != nil {
			return nil, fmt.Errorf("read CRD: %w", err)
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &obj.Object); err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		out = append(out, obj)
	}
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(v1alpha1.Namespace)
	// An apply that says nothing owns nothing, and the API server writes such an object each time.
	ns.SetLabels(map[string]string{"app.kubernetes.io/name": "capstan"})
	return append(out, ns), nil
}

// awaitServed waits until the CRD is established and its kind answers, which are two moments.
func (s *Store) awaitServed(ctx context.Context, name string, deadline time.Time) error {
	for {
		state, err := s.served(ctx, name)
		if err != nil {
			return err
		}
		if state == "" {
			return nil
		}
		if !s.clock.Now().Before(deadline) {
			return &problem.Error{
				Reason:  "KindNotServed",
				Message: fmt.Sprintf("the API server does not serve CustomResourceDefinition %s after %s: %s", name, establishLimit, state),
				Remedy:  "kubectl describe crd " + name,
				Exit:    problem.ExitError,
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for CustomResourceDefinition %s: %w", name, ctx.Err())
		case <-s.clock.After(establishPoll):
		}
	}
}

// served returns what is missing until the CRD's kind can be used, empty if nothing is.
func (s *Store) served(ctx context.Context, name string) (string, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(crdKind())
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, obj); err != nil {
		return "", translate("read CustomResourceDefinition "+name, err)
	}
	if state := notEstablished(obj); state != "" {
		return state, nil
	}
	kind, _, err := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	if err != nil {
		return "", fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	err = s.client.List(ctx, list, client.Limit(1))
	if apierrors.IsNotFound(err) {
		return "it is established but does not answer yet", nil
	}
	return "", translate("list "+kind+" objects", err)
}

func notEstablished(obj *unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if !ok {
			continue
		}
		if m["type"] == "Established" && m["status"] == "True" {
			return ""
		}
		if m["status"] == "False" {
			said = append(said, fmt.Sprintf("%v is False: %v", m["type"], m["message"]))
		}
	}
	if len(said) == 0 {
		return "it is not established yet"
	}
	return strings.Join(said, "; ")
}
