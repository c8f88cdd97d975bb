// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/world"
)

// webhooksTopic reads every admission webhook, the labels of the namespaces that their selectors are about, and whether
// something answers behind each.
func webhooksTopic() topic {
	return topic{name: world.TopicWebhooks, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		c := &webhookCollector{}
		s.visit(admissionMapping("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"), c.validating)
		s.visit(admissionMapping("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"), c.mutating)
		return func(ctx context.Context) error { return c.finish(ctx, s) }, nil
	}}
}

type webhookCollector struct {
	found []world.Webhook
	err   error
}

func (c *webhookCollector) validating(u *unstructured.Unstructured) {
	config, err := typed[admissionv1.ValidatingWebhookConfiguration](u)
	if err != nil {
		c.err = err
		return
	}
	for i, w := range config.Webhooks {
		c.found = append(c.found, webhookOf(u, i, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions))
	}
}

func (c *webhookCollector) mutating(u *unstructured.Unstructured) {
	config, err := typed[admissionv1.MutatingWebhookConfiguration](u)
	if err != nil {
		c.err = err
		return
	}
	for i, w := range config.Webhooks {
		c.found = append(c.found, webhookOf(u, i, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions))
	}
}

// webhookOf takes what both kinds of configuration have in the same words.
func webhookOf(owner *unstructured.Unstructured, i int, name string, policy *admissionv1.FailurePolicyType, client admissionv1.WebhookClientConfig,
	rules []admissionv1.RuleWithOperations, namespaces, objects *metav1.LabelSelector, conditions []admissionv1.MatchCondition,
) world.Webhook {
	out := world.Webhook{
		Owner: world.RefOf(owner), Index: i, Name: name, FailClosed: ptr.Deref(policy, admissionv1.Fail) == admissionv1.Fail,
		NamespaceSelector: namespaces, ObjectSelector: objects,
	}
	for _, m := range conditions {
		out.Conditions = append(out.Conditions, m.Expression)
	}
	for _, r := range rules {
		rule := world.WebhookRule{
			Groups: slices.Clone(r.APIGroups), Versions: slices.Clone(r.APIVersions), Resources: slices.Clone(r.Resources),
			Scope: string(ptr.Deref(r.Scope, admissionv1.AllScopes)),
		}
		for _, o := range r.Operations {
			rule.Operations = append(rule.Operations, string(o))
		}
		out.Rules = append(out.Rules, rule)
	}
	if client.Service != nil {
		out.Backend.Namespace, out.Backend.Service = client.Service.Namespace, client.Service.Name
	}
	out.Backend.URL = ptr.Deref(client.URL, "")
	return out
}

func (c *webhookCollector) finish(ctx context.Context, s *surveyor) error {
	if c.err != nil {
		return c.err
	}
	out := &world.Webhooks{Admission: c.found, Namespaces: map[string]map[string]string{}}
	namespaces, err := listMetadata(ctx, s.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces {
		out.Namespaces[namespaces[i].Name] = maps.Clone(namespaces[i].Labels)
	}
	err = forEach(len(out.Admission), s.parallel, func(i int) (err error) {
		b := &out.Admission[i].Backend
		if !out.Admission[i].FailClosed || b.Service == "" {
			return nil
		}
		b.Found, b.Ready, err = s.answers(ctx, b.Namespace, b.Service)
		return err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(out.Admission, func(a, b world.Webhook) int {
		if c := strings.Compare(a.Owner.String(), b.Owner.String()); c != 0 {
			return c
		}
		return a.Index - b.Index
	})
	s.out.Webhooks = out
	return nil
}

// answers tells whether a Service exists, and whether one of its endpoints is ready.
func (s *surveyor) answers(ctx context.Context, namespace, name string) (found, ready bool, err error) {
	_, err = s.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
	}
	from := s.clients.dynamic.Resource(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")).Namespace(namespace)
	all, err := typedList[discoveryv1.EndpointSlice](ctx, from, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return true, false, fmt.Errorf("list the endpoints of Service %s/%s: %w", namespace, name, err)
	}
	for _, one := range all {
		if slices.ContainsFunc(one.Endpoints, func(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }) {
			return true, true, nil
		}
	}
	return true, false, nil
}

// admissionMapping says how a kind is reached that every API server has.
func admissionMapping(kind, resource string) *apimeta.RESTMapping {
	gv := admissionv1.SchemeGroupVersion
	return &apimeta.RESTMapping{Resource: gv.WithResource(resource), GroupVersionKind: gv.WithKind(kind), Scope: apimeta.RESTScopeRoot}
}
