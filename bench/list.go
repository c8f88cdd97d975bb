// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listCommand is this program as a plain client.
const listCommand = "list-plainly"

// listPlainly lists all CRDs, and every object of each of them, as the simplest client does that has no limit of its own:
// one resource after the other, each in one piece, all of it kept. It prints how many objects and kinds there are.
func listPlainly(ctx context.Context, kubeconfig string, out io.Writer) error {
	c, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	crds, err := c.list(ctx, "apiextensions.k8s.io", "v1", "customresourcedefinitions", metav1.ListOptions{})
	if err != nil {
		return err
	}
	all := [][]unstructured.Unstructured{crds}
	objects := len(crds)
	for i := range crds {
		resource := resourceOf(&crds[i])
		if resource.Version == "" {
			continue
		}
		items, err := c.list(ctx, resource.Group, resource.Version, resource.Resource, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all = append(all, items)
		objects += len(items)
	}
	_, err = fmt.Fprintln(out, objects, len(all))
	return err
}

// resourceOf returns how the objects of a CRD are reached: in the version that needs no conversion if it is served.
func resourceOf(crd *unstructured.Unstructured) schema.GroupVersionResource {
	var r schema.GroupVersionResource
	r.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group") // a CRD has these fields
	r.Resource, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, ok := v.(map[string]any)
		if !ok || m["served"] != true {
			continue
		}
		if name, ok := m["name"].(string); ok && (r.Version == "" || m["storage"] == true) {
			r.Version = name
		}
	}
	return r
}
