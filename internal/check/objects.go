// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

func storedVersions() Check {
	return Check{
		ID: "CAP-CRD-STORED-VERSION",
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

func refusedObjects() Check {
	return Check{
		ID: "CAP-OBJECT-REFUSED",
		Doc: "Every object of the release is sent to the API server as a dry run before anything is changed. One that it refuses would stop the run half-way. " +
			"The message is the API server's own.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
				for _, o := range t.Sets[name].Objects {
					switch {
					case o.Refused != "":
						out = append(out, block(fmt.Sprintf("The API server refuses %s of %s: %s", o.Ref, name, o.Refused),
							"correct the manifest, or what refuses it (a policy, a webhook, a missing permission)", o.Ref))
					case o.Terminating:
						out = append(out, block(fmt.Sprintf("%s of %s is being deleted", o.Ref, name),
							"wait until it is gone; if it does not go, look at its finalizers", o.Ref))
					}
				}
			}
			return out
		},
	}
}

func leftCRDs() Check {
	return Check{
		ID:  "CAP-CRD-LEFT",
		Doc: "A CRD that the new version no longer has is kept: deleting it would delete all its objects. Remove it by hand once nothing needs it.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
				for _, r := range t.Sets[name].Leftovers {
					if r.Kind != "CustomResourceDefinition" {
						continue
					}
					out = append(out, warn(fmt.Sprintf("CRD %s is no longer part of %s; it is kept", r.Name, name),
						fmt.Sprintf("kubectl get %s -A, and delete the CRD when nothing needs it", r.Name), r))
				}
			}
			return out
		},
	}
}

func handChanges() Check {
	return Check{
		ID: "CAP-HAND-CHANGES",
		Doc: "A component whose recorded version is the target, but whose objects differ from the release, was changed by hand or left half-done by an earlier upgrade. " +
			"The run makes the objects what the release says.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if c.Action != v1alpha1.ActionRepair {
					continue
				}
				for _, o := range t.Sets[c.Name].Objects {
					if o.InSync || o.Cosmetic {
						continue
					}
					out = append(out, warn(fmt.Sprintf("%s of %s is not what %s says: %s", o.Ref, c.Name, c.To, drift(o)),
						"put the change into the release if it is meant to stay", o.Ref))
				}
			}
			return out
		},
	}
}

func drift(o world.Object) string {
	if !o.Found {
		return "it is missing"
	}
	return o.Drift
}

func fleetAtRest() Check {
	return Check{
		ID: "CAP-FLEET-MOVING", Waivable: true,
		Doc: "Machines that are being deleted or scaled while controllers are swapped make it hard to tell a change that was asked for from one that the upgrade caused.",
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for i := range w.Clusters {
				c := &w.Clusters[i]
				deleting := 0
				for _, m := range c.Machines {
					if m.Deleting {
						deleting++
					}
				}
				if deleting > 0 {
					out = append(out, warn(fmt.Sprintf("Cluster %s has %d Machines that are being deleted", c.Key(), deleting),
						fmt.Sprintf("wait until they are gone: kubectl get machines -n %s", c.Namespace)))
				}
			}
			return out
		},
	}
}

func readyNode() Check {
	return Check{
		ID: "CAP-NODE-READY", Waivable: true,
		Doc: "New controllers need a node of the management cluster to run on.",
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			if slices.ContainsFunc(w.Management.Nodes, func(n world.Node) bool { return n.Ready }) {
				return nil
			}
			return []v1alpha1.Finding{block(fmt.Sprintf("None of the management cluster's %d nodes is Ready", len(w.Management.Nodes)),
				"kubectl get nodes, and bring one back")}
		},
	}
}
