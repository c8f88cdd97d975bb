// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// IDs of the hazards of a rolling swap.
const (
	// HazardTwoActive: old and new controllers would both be active.
	HazardTwoActive = "TwoActiveControllers"
	// HazardOldWebhook: the old webhook would be asked to convert a version that it does not know.
	HazardOldWebhook = "OldWebhookUnknownVersion"
	// HazardRecreate: the Deployment itself stops its old Pods before it starts new ones.
	HazardRecreate = "RecreateStrategy"
	// HazardImmutable: the API server refuses a change in place.
	HazardImmutable = "ImmutableField"
	// HazardOldController: the old controller would fight what the new version removes.
	HazardOldController = "OldControllerFights"
	// HazardCA: the CA of a webhook changes under its callers.
	HazardCA = "WebhookCAReplaced"
)

// hazards decides what a rolling swap of the component would hide, from the manifests and what is installed.
func hazards(c *v1alpha1.PlannedComponent, r *release.Rendered, set world.Set) {
	for i, wanted := range r.Objects {
		if i >= len(set.Objects) || !set.Objects[i].Found {
			continue
		}
		seen := set.Objects[i]
		immutable(c, seen)
		if seen.Live == nil || seen.InSync || seen.Cosmetic {
			continue
		}
		switch wanted.GetKind() {
		case "Deployment":
			twoActive(c, seen.Live, wanted)
			recreate(c, wanted)
		case "CustomResourceDefinition":
			oldWebhook(c, seen.Live, wanted)
			replacedCA(c, seen.Live, wanted)
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			replacedCA(c, seen.Live, wanted)
		}
	}
	oldControllers(c)
}

func (h hazard) add(c *v1alpha1.PlannedComponent) {
	c.Hazards = append(c.Hazards, v1alpha1.Hazard(h))
}

type hazard v1alpha1.Hazard

// replaceable are kinds that can be deleted and made anew without losing what people own.
func replaceable(kind string) bool {
	switch kind {
	case "Deployment", "StatefulSet", "DaemonSet", "Job", "Service", "RoleBinding", "ClusterRoleBinding", "Secret", "ConfigMap", "Certificate", "Issuer":
		return true
	}
	return false
}

func immutable(c *v1alpha1.PlannedComponent, o world.Object) {
	if !o.Immutable || !replaceable(o.Ref.Kind) {
		return
	}
	h := hazard{ID: HazardImmutable, Message: fmt.Sprintf("%s can't be changed in place: %s", o.Ref, o.Drift), Decision: "Replace this one object"}
	if o.Ref.Kind == "Deployment" || o.Ref.Kind == "StatefulSet" {
		c.Strategy = v1alpha1.StrategyStopThenStart
		h.Decision = "Stop the old controllers, replace the object, start the new ones; the gap is measured"
	}
	c.Replace = append(c.Replace, v1alpha1.ObjectReference(o.Ref))
	h.add(c)
}

// twoActive finds controllers that nothing keeps from being active at once. A provider has to turn leader election on
// (the clusterctl provider contract's manager runs with --leader-elect); a plain manifest may hold servers that need
// none, so there only an explicit no or a changed lease counts.
func twoActive(c *v1alpha1.PlannedComponent, live, wanted *unstructured.Unstructured) {
	old, next := world.ElectionOf(live), world.ElectionOf(wanted)
	var why string
	switch {
	case old.Off() || next.Off():
		why = "leader election is switched off"
	case c.Type == v1alpha1.ComponentProvider && (!old.On() || !next.On()):
		why = "leader election is not switched on"
	case old.Lease != next.Lease || old.Namespace != next.Namespace:
		why = fmt.Sprintf("the leader election lease changes from %q in %q to %q in %q", old.Lease, old.Namespace, next.Lease, next.Namespace)
	default:
		return
	}
	c.Strategy = v1alpha1.StrategyStopThenStart
	hazard{
		ID: HazardTwoActive, Message: fmt.Sprintf("Deployment %s/%s: %s", wanted.GetNamespace(), wanted.GetName(), why),
		Decision: "Stop the old controllers before the new ones start, for this component alone; the gap is measured",
	}.add(c)
}

// recreate finds Deployments that ask for a gap themselves. The run does not take that from them, it says so.
func recreate(c *v1alpha1.PlannedComponent, wanted *unstructured.Unstructured) {
	kind, _, err := unstructured.NestedString(wanted.Object, "spec", "strategy", "type")
	if err != nil || kind != "Recreate" {
		return
	}
	c.Strategy = v1alpha1.StrategyStopThenStart
	hazard{
		ID:       HazardRecreate,
		Message:  fmt.Sprintf("Deployment %s/%s has the strategy Recreate", wanted.GetNamespace(), wanted.GetName()),
		Decision: "Stop the old controllers before the new ones start, as the Deployment asks for; the gap is measured",
	}.add(c)
}

// oldWebhook finds CRDs whose storage version moves, or which get a version that the old conversion webhook does not
// know. Only the storage version makes the API server itself ask for the unknown version, so it is held back.
func oldWebhook(c *v1alpha1.PlannedComponent, live, wanted *unstructured.Unstructured) {
	strategy, _, err := unstructured.NestedString(wanted.Object, "spec", "conversion", "strategy")
	if err != nil || strategy != "Webhook" {
		return
	}
	// Where the live storage version goes, stored objects are migrated to another before.
	old, next := storedIn(c, wanted.GetName(), storageVersion(live)), storageVersion(wanted)
	added := slices.DeleteFunc(check.VersionNames(wanted), func(v string) bool { return slices.Contains(check.VersionNames(live), v) })
	h := hazard{ID: HazardOldWebhook}
	switch {
	case old != next && slices.Contains(check.VersionNames(wanted), old):
		hold(c, wanted.GetName()).Storage = old
		h.Message = fmt.Sprintf("CRD %s moves its storage version from %s to %s", wanted.GetName(), old, next)
		h.Decision = fmt.Sprintf("Serve the new version, keep storing %s until the new webhook answers, then switch", old)
	case len(added) > 0:
		h.Message = fmt.Sprintf("CRD %s serves %s, which the old webhook does not know", wanted.GetName(), strings.Join(added, ", "))
		h.Decision = "Nothing is stored in it, so only callers that ask for it wait for the new webhook; it is probed before the component counts as done"
	default:
		return
	}
	h.add(c)
}

func storageVersion(crd *unstructured.Unstructured) string {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return ""
	}
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["storage"] == true {
			return fmt.Sprint(m["name"])
		}
	}
	return ""
}

// injectors are the annotations by which cert-manager's cainjector finds the CA of a webhook.
func injectors() []string {
	return []string{"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"}
}

// hold returns the entry of a CRD among those in two phases, made on first use.
func hold(c *v1alpha1.PlannedComponent, crd string) *v1alpha1.TwoPhaseCRD {
	i := slices.IndexFunc(c.TwoPhase, func(t v1alpha1.TwoPhaseCRD) bool { return t.Name == crd })
	if i < 0 {
		c.TwoPhase = append(c.TwoPhase, v1alpha1.TwoPhaseCRD{Name: crd})
		i = len(c.TwoPhase) - 1
	}
	return &c.TwoPhase[i]
}

// replacedCA finds webhooks whose CA will come from elsewhere. The old Pods go on serving with the old certificate, so
// the old source stays until the new Pods answer.
func replacedCA(c *v1alpha1.PlannedComponent, live, wanted *unstructured.Unstructured) {
	for _, a := range injectors() {
		old, next := live.GetAnnotations()[a], wanted.GetAnnotations()[a]
		if old == next || old == "" {
			continue
		}
		h := hazard{
			ID:       HazardCA,
			Message:  fmt.Sprintf("%s %s takes its CA from %q instead of %q", wanted.GetKind(), wanted.GetName(), next, old),
			Decision: "Keep the old CA until the new Pods run, then switch, and call the switch done only once a real call verifies",
		}
		if wanted.GetKind() == "CustomResourceDefinition" {
			t := hold(c, wanted.GetName())
			if t.Annotations == nil {
				t.Annotations = map[string]string{}
			}
			t.Annotations[a] = old
		}
		h.add(c)
	}
}

func oldControllers(c *v1alpha1.PlannedComponent) {
	if len(c.Prune) == 0 {
		return
	}
	kinds := map[string]int{}
	for _, r := range c.Prune {
		kinds[r.Kind]++
		if r.Kind == "Deployment" {
			c.Strategy = v1alpha1.StrategyStopThenStart
		}
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%d %s", kinds[k], k))
	}
	h := hazard{
		ID: HazardOldController, Message: "The new version no longer has " + strings.Join(parts, ", "),
		Decision: "Remove them only after no old Pod is left that could miss them",
	}
	if kinds["Deployment"] > 0 {
		h.Decision = "Stop the removed Deployment before the new controllers start; remove the objects at the end"
	}
	h.add(c)
}
