// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// parts are the objects of a component by the step that applies them.
type parts struct {
	crds, rest, webhooks []*unstructured.Unstructured
	// deployments are those of rest that run controllers.
	deployments []*unstructured.Unstructured
}

func split(objs []*unstructured.Unstructured) parts {
	var p parts
	for _, o := range objs {
		switch o.GetKind() {
		case "CustomResourceDefinition":
			p.crds = append(p.crds, o)
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			p.webhooks = append(p.webhooks, o)
		case "Deployment":
			p.deployments = append(p.deployments, o)
			p.rest = append(p.rest, o)
		default:
			p.rest = append(p.rest, o)
		}
	}
	return p
}

// hasConversion tells whether a CRD among crds converts through a webhook.
func hasConversion(crds []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(crds, convertsByWebhook)
}

func convertsByWebhook(crd *unstructured.Unstructured) bool {
	strategy, _, err := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	return err == nil && strategy == "Webhook"
}

// withConversion returns the CRDs that convert through a webhook, as they are after the step crds.
func withConversion(crds []*unstructured.Unstructured, twoPhase []v1alpha1.TwoPhaseCRD) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, crd := range crds {
		if !convertsByWebhook(crd) {
			continue
		}
		if storage, held := heldStorage(crd.GetName(), twoPhase); held {
			crd = FirstPhase(crd, storage)
		}
		out = append(out, crd)
	}
	return out
}

// named returns the CRDs that twoPhase lists.
func named(crds []*unstructured.Unstructured, twoPhase []v1alpha1.TwoPhaseCRD) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, crd := range crds {
		if _, held := heldStorage(crd.GetName(), twoPhase); held {
			out = append(out, crd)
		}
	}
	return out
}

func heldStorage(name string, twoPhase []v1alpha1.TwoPhaseCRD) (string, bool) {
	for _, t := range twoPhase {
		if t.Name == name {
			return t.Storage, true
		}
	}
	return "", false
}

// FirstPhase returns a copy of a CRD whose storage version is held at the given one: the new versions are served, and
// nothing is stored in them until the new conversion webhook was seen to answer.
func FirstPhase(crd *unstructured.Unstructured, storage string) *unstructured.Unstructured {
	held := crd.DeepCopy()
	versions, _, err := unstructured.NestedSlice(held.Object, "spec", "versions")
	if err != nil {
		return held
	}
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			m["storage"] = m["name"] == storage
		}
	}
	if err := unstructured.SetNestedSlice(held.Object, versions, "spec", "versions"); err != nil {
		return crd.DeepCopy()
	}
	return held
}

// InventoryEntry returns the clusterctl inventory object of a provider at a version, as clusterctl would write it
// (cmd/clusterctl/client/repository/components.go, InventoryObject).
func InventoryEntry(p v1alpha1.ProviderIdentity, version string) *unstructured.Unstructured {
	label := clusterctlv1.ManifestLabel(p.Name, clusterctlv1.ProviderType(p.Type))
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
		"kind":       "Provider",
		"metadata": map[string]any{
			"name":      label,
			"namespace": p.Namespace,
			"labels": map[string]any{
				"clusterctl.cluster.x-k8s.io":      "",
				"cluster.x-k8s.io/provider":        label,
				"clusterctl.cluster.x-k8s.io/core": "inventory",
			},
		},
		"providerName": p.Name,
		"type":         p.Type,
		"version":      version,
	}}
}
