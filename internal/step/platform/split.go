// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"maps"
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
		if hold := held(crd.GetName(), twoPhase); hold != nil {
			crd = FirstPhase(crd, *hold)
		}
		out = append(out, crd)
	}
	return out
}

// named returns the CRDs that twoPhase lists.
func named(crds []*unstructured.Unstructured, twoPhase []v1alpha1.TwoPhaseCRD) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, crd := range crds {
		if held(crd.GetName(), twoPhase) != nil {
			out = append(out, crd)
		}
	}
	return out
}

// held returns what a CRD keeps during the first phase, nil if it is applied in one go.
func held(name string, twoPhase []v1alpha1.TwoPhaseCRD) *v1alpha1.TwoPhaseCRD {
	for i := range twoPhase {
		if twoPhase[i].Name == name {
			return &twoPhase[i]
		}
	}
	return nil
}

// FirstPhase returns a copy of a CRD in its first phase: new versions are served, and nothing is stored in them, nor is
// the old webhook's CA given up, until the new conversion webhook was seen to answer.
func FirstPhase(crd *unstructured.Unstructured, hold v1alpha1.TwoPhaseCRD) *unstructured.Unstructured {
	first := crd.DeepCopy()
	if len(hold.Annotations) > 0 {
		annotations := maps.Clone(first.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, hold.Annotations)
		first.SetAnnotations(annotations)
	}
	if hold.Storage == "" {
		return first
	}
	versions, _, err := unstructured.NestedSlice(first.Object, "spec", "versions")
	if err != nil {
		return first
	}
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			m["storage"] = m["name"] == hold.Storage
		}
	}
	first.Object["spec"].(map[string]any)["versions"] = versions //nolint:errcheck,forcetypeassert // read as a map just above
	return first
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
