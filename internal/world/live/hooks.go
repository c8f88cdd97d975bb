// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/world"
)

// admissionHook is what decides when the API server calls an admission webhook.
type admissionHook struct {
	mutating          bool
	rules             []admissionv1.RuleWithOperations
	namespaceSelector *metav1.LabelSelector
	objectSelector    *metav1.LabelSelector
	// hidden tells that a request can't show whether the webhook was called: its failures are ignored, or a condition
	// decides about each call.
	hidden bool
}

// conversionHook is what decides when the API server calls a conversion webhook.
type conversionHook struct {
	resource schema.GroupResource
	// versions are the served ones.
	versions []string
}

// hooksOf returns the hooks of a member of a set that is there and wanted; none for other kinds.
func hooksOf(t *task) ([]hook, error) {
	if t.live == nil || !t.result.Found || t.wanted.Presence != world.Present {
		return nil, nil
	}
	u := t.live
	base := hook{owner: world.RefOf(u), resourceVersion: u.GetResourceVersion(), annotations: u.GetAnnotations()}
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: admissionv1.GroupName, Kind: "ValidatingWebhookConfiguration"}:
		c, err := typed[admissionv1.ValidatingWebhookConfiguration](u)
		if err != nil {
			return nil, err
		}
		var out []hook
		for _, w := range c.Webhooks {
			out = append(out, base.with(w.Name, w.ClientConfig, admissionHook{
				rules: w.Rules, namespaceSelector: w.NamespaceSelector, objectSelector: w.ObjectSelector,
				hidden: ptr.Deref(w.FailurePolicy, admissionv1.Fail) == admissionv1.Ignore || len(w.MatchConditions) > 0,
			}))
		}
		return out, nil
	case schema.GroupKind{Group: admissionv1.GroupName, Kind: "MutatingWebhookConfiguration"}:
		c, err := typed[admissionv1.MutatingWebhookConfiguration](u)
		if err != nil {
			return nil, err
		}
		var out []hook
		for _, w := range c.Webhooks {
			out = append(out, base.with(w.Name, w.ClientConfig, admissionHook{
				mutating: true, rules: w.Rules, namespaceSelector: w.NamespaceSelector, objectSelector: w.ObjectSelector,
				hidden: ptr.Deref(w.FailurePolicy, admissionv1.Fail) == admissionv1.Ignore || len(w.MatchConditions) > 0,
			}))
		}
		return out, nil
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return base.conversionOf(u)
	}
	return nil, nil
}

// with returns an admission hook of the same owner.
func (h hook) with(name string, c admissionv1.WebhookClientConfig, a admissionHook) hook {
	h.name, h.admission = name, &a
	h.client = hookClient{caBundle: c.CABundle}
	if s := c.Service; s != nil {
		h.client.namespace, h.client.service = s.Namespace, s.Name
		h.client.port, h.client.path = int64(ptr.Deref(s.Port, 443)), ptr.Deref(s.Path, "/")
	}
	return h
}

// conversionOf returns the conversion of a CRD; none if it converts without a webhook.
func (h hook) conversionOf(crd *unstructured.Unstructured) ([]hook, error) {
	if stringAt(crd, "spec", "conversion", "strategy") != "Webhook" {
		return nil, nil
	}
	raw, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	config, err := typed[admissionv1.WebhookClientConfig](&unstructured.Unstructured{Object: raw})
	if err != nil {
		return nil, err
	}
	h = h.with("conversion", *config, admissionHook{})
	h.admission = nil
	h.conversion = &conversionHook{resource: schema.GroupResource{
		Group: stringAt(crd, "spec", "group"), Resource: stringAt(crd, "spec", "names", "plural"),
	}}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		if served, _ := m["served"].(bool); served && name != "" {
			h.conversion.versions = append(h.conversion.versions, name)
		}
	}
	return []hook{h}, nil
}
