// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

func unknownKind() Check {
	return Check{
		ID: "CAP-KIND-UNKNOWN", Waivable: true,
		Title: "Every kind of the release is known",
		Doc: "An object of a kind that the API server does not serve can't even be tried as a dry run. That is as it should be where the release brings the kind's CRD. " +
			"Where it does not, the run would wait for the kind in vain, half-way through.",
		Fix:     "Correct apiVersion and kind, or put the component that brings the CRD into the release. If a controller makes the kind known while the run goes on, accept the finding.",
		Sources: []string{"https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			brought := broughtKinds(t)
			var out []v1alpha1.Finding
			for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
				for _, o := range t.Sets[name].Objects {
					gvk := schema.FromAPIVersionAndKind(o.Ref.APIVersion, o.Ref.Kind)
					if !o.Unserved || brought[gvk] {
						continue
					}
					out = append(out, block(
						fmt.Sprintf("%s of %s is of kind %s %s, which the API server does not serve and the release does not bring", o.Ref, name, o.Ref.APIVersion, o.Ref.Kind),
						fmt.Sprintf("kubectl api-resources --api-group=%s shows what is served; correct the manifest, or add the component with the CRD to the release", gvk.Group), o.Ref))
				}
			}
			return out
		},
	}
}

// broughtKinds are those that the release's own CRDs serve.
func broughtKinds(t *Target) map[schema.GroupVersionKind]bool {
	out := map[schema.GroupVersionKind]bool{}
	if t.Bundle == nil {
		return out
	}
	for _, r := range t.Bundle.Components {
		for _, o := range r.Objects {
			if o.GetKind() != "CustomResourceDefinition" {
				continue
			}
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
			if err != nil {
				continue
			}
			for _, v := range versions {
				m, ok := v.(map[string]any)
				if !ok || m["served"] != true {
					continue
				}
				version, _ := m["name"].(string)
				out[schema.GroupVersionKind{Group: group, Version: version, Kind: kind}] = true
			}
		}
	}
	return out
}
