// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// storageChecks are about stored objects of the release's CRDs.
func storageChecks() []Check {
	return []Check{storedVersions()}
}

func storedVersions() Check {
	return Check{
		ID:    "CAP-CRD-STORED-VERSION",
		Title: "No stored object becomes unreadable",
		Doc: "A CRD lists in status.storedVersions every version that objects may still be stored in. The API server refuses a CRD that no longer has one of them, " +
			"and objects stored in it would be unreadable. The objects have to be rewritten in the storage version first.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, r := range t.Bundle.Components {
				set := t.Sets[r.Component.Name]
				for i, wanted := range r.Objects {
					if wanted.GetKind() != "CustomResourceDefinition" || i >= len(set.Objects) || set.Objects[i].Live == nil {
						continue
					}
					gone := missing(stored(set.Objects[i].Live), VersionNames(wanted))
					if len(gone) == 0 {
						continue
					}
					out = append(out, block(
						fmt.Sprintf("CRD %s of %s may hold objects stored in %s, which %s no longer has", wanted.GetName(), r.Component.Name, strings.Join(gone, ", "), r.Component.Version),
						fmt.Sprintf("rewrite the objects (kubectl get %s -A -o name | xargs -n1 kubectl annotate … --overwrite), then remove %s from status.storedVersions",
							wanted.GetName(), strings.Join(gone, ", ")),
						set.Objects[i].Ref))
				}
			}
			return out
		},
	}
}

func stored(crd *unstructured.Unstructured) []string {
	versions, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if err != nil {
		return nil
	}
	return versions
}

// VersionNames lists the versions of a CRD in the order in which it has them.
func VersionNames(crd *unstructured.Unstructured) []string {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil
	}
	var out []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			out = append(out, fmt.Sprint(m["name"]))
		}
	}
	return out
}

func missing(wanted, have []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(v string) bool { return slices.Contains(have, v) })
}
