// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// objectChecks are about the objects of the release and what becomes of those that are there.
func objectChecks() []Check {
	return []Check{refusedObjects(), leftCRDs(), handChanges()}
}

func refusedObjects() Check {
	return Check{
		ID:    "CAP-OBJECT-REFUSED",
		Title: "The API server takes every object of the release",
		Doc: "Every object of the release is sent to the API server as a dry run before anything is changed. One that it refuses would stop the run half-way. " +
			"The message is the API server's own.",
		Fix: "Correct the manifest, or what refuses it: the message names the policy, the webhook or the missing permission. An object that is being deleted has to go first: its finalizers say what it waits for.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
				for _, o := range t.Sets[name].Objects {
					switch {
					case o.Stored:
						// CAP-CRD-STORED-VERSION says more.
					case o.Refused != "":
						out = append(out, block(fmt.Sprintf("The API server refuses %s of %s: %s", o.Ref, name, o.Refused),
							refusalRemedy(o), o.Ref))
					case o.Terminating && o.Ref.Kind != "Namespace": // CAP-TERMINATING tells more of namespaces
						out = append(out, goingObject(o, name))
					}
				}
			}
			return out
		},
	}
}

// refusalRemedy says where to look at what refuses an object: a policy or a webhook that the answer names, or the manifest.
func refusalRemedy(o world.Object) string {
	quoted := func(after, quote string) string {
		_, rest, found := strings.Cut(o.Refused, after+quote)
		name, _, closed := strings.Cut(rest, quote)
		if !found || !closed || strings.ContainsAny(name, " \n") {
			return ""
		}
		return name
	}
	if name := quoted("ValidatingAdmissionPolicy ", "'"); name != "" {
		return fmt.Sprintf("kubectl get validatingadmissionpolicy %s -o yaml says what it asks for; correct the manifest, or have the policy changed", name)
	}
	if name := quoted("admission webhook ", `"`); name != "" {
		return fmt.Sprintf("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml | grep -B40 %s shows whose webhook it is; correct the manifest, or what the webhook protects", name)
	}
	return "correct the manifest, or what refuses it (a policy, a webhook, a missing permission)"
}

func goingObject(o world.Object, component string) v1alpha1.Finding {
	summary := fmt.Sprintf("%s of %s is being deleted", o.Ref, component)
	if o.Held != "" {
		summary += ", and is held by " + o.Held
	}
	where := ""
	if o.Ref.Namespace != "" {
		where = " -n " + o.Ref.Namespace
	}
	return block(summary, fmt.Sprintf("kubectl get %s %s%s -o jsonpath='{.metadata.finalizers}', and let the owner of the finalizers finish; when it is gone, plan again",
		strings.ToLower(o.Ref.Kind), o.Ref.Name, where), o.Ref)
}

func leftCRDs() Check {
	return Check{
		ID:    "CAP-CRD-LEFT",
		Title: "CRDs that stay behind are known",
		Doc:   "A CRD that the new version no longer has is kept: deleting it would delete all its objects. Remove it by hand once nothing needs it.",
		Fix:   "Nothing has to be done now. Once no controller needs the kind and its objects are of no use any more, delete the CRD by hand; that deletes its objects with it.",
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
		ID:    "CAP-HAND-CHANGES",
		Title: "What is recorded is what is there",
		Doc: "A component whose recorded version is the target, but whose objects differ from the release, was changed by hand or left half-done by an earlier upgrade. " +
			"The same is true of a plain manifest of which some objects are at the target already. No record is believed: each object of the release is compared, " +
			"and the run makes all of them what the release says. Which settings of a controller are reset by that is told by CAP-SETTINGS-RESET and CAP-FEATURE-GATE-LOST.",
		Fix:     "Put the change into the release if it is meant to stay; otherwise nothing has to be done. `capstan plan RELEASE --diff` shows what differs.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/10389"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				behind, begun := behind(t.Sets[c.Name])
				begun = begun && c.Action == v1alpha1.ActionUpgrade && c.Type == v1alpha1.ComponentManifest
				if len(behind) == 0 || c.Action != v1alpha1.ActionRepair && !begun {
					continue
				}
				var names []string
				var refs []world.Ref
				for _, o := range behind {
					refs = append(refs, o.Ref)
					names = append(names, o.Ref.String()+detail(o, len(behind)))
				}
				out = append(out, warn(
					fmt.Sprintf("%d of %d objects of %s are not at %s: %s", len(behind), len(t.Sets[c.Name].Objects), c.Name, c.To, fold(names, 5, ", ")),
					"nothing, the run brings all of them there; put into the release what was changed on purpose", refs...))
			}
			return out
		},
	}
}

// behind returns the objects that are not as the release has them, and whether any is.
func behind(set world.Set) (out []world.Object, begun bool) {
	for _, o := range set.Objects {
		begun = begun || o.InSync
		if !o.InSync && (!o.Found || !o.Cosmetic || o.Change != "") {
			out = append(out, o)
		}
	}
	return out, begun
}

// detail says what differs, where that does not make the line too long.
func detail(o world.Object, of int) string {
	switch {
	case !o.Found:
		return " (missing)"
	case of > 2 || o.Drift == "":
		return ""
	}
	return " (" + o.Drift + ")"
}
