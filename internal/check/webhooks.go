// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// webhookChecks are about admission webhooks that stand between an upgrade and the API server.
func webhookChecks() []Check {
	return []Check{policyWebhook()}
}

func policyWebhook() Check {
	return Check{
		ID: "CAP-POLICY-WEBHOOK", Scope: Both, Waivable: true,
		Title: "No policy webhook can shut the API server out of its own cluster",
		Doc: "A webhook with failurePolicy Fail whose rules match everything is asked about what the API server itself makes when it starts, and about the " +
			"Pods of the control plane. If it is answered by Pods of the same cluster, each waits for the other: a new minor version creates objects of kinds that the " +
			"policy does not know and refuses, or the policy's Pods are just being replaced, and nothing starts any more.\n\n" +
			"Looked at are webhooks that fail closed, are answered inside the management cluster, and match `*` or kinds that Kubernetes itself is made of, in " +
			"kube-system, in the namespaces of providers, or for objects without a namespace. Webhooks for the kinds of Cluster API, cert-manager and other " +
			"projects don't match those. A selector counts as an exclusion if it leaves these namespaces out, a match condition if it names a system user or kube-system.",
		Fix: "Exclude the system namespaces and the API server's own requests from the webhook, with the patch that the finding shows; or make its policy engine do so, " +
			"if that writes the configuration itself (Kyverno: resourceFilters and webhooks.namespaceSelector; Gatekeeper: the exempt-namespace label).",
		Sources: []string{
			"https://github.com/kubernetes/kubernetes/issues/137356",
			"https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#best-practices-and-warnings",
		},
		Needs: []world.Topic{world.TopicWebhooks},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			guarded := guardedNamespaces(w, t)
			var out []v1alpha1.Finding
			for i := range w.Survey.Webhooks.Admission {
				if f, found := judgeWebhook(&w.Survey.Webhooks.Admission[i], w.Survey.Webhooks, guarded, t); found {
					out = append(out, f)
				}
			}
			return out
		},
	}
}

// guardedNamespaces are those whose objects must not depend on a policy: Kubernetes', and those of what is upgraded.
func guardedNamespaces(w *world.World, t *Target) []string {
	set := map[string]bool{"kube-system": true}
	for _, p := range w.Management.Providers {
		set[p.Namespace] = true
	}
	for _, s := range t.Sets {
		for _, o := range s.Objects {
			if slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, o.Ref.Kind) {
				set[o.Ref.Namespace] = true
			}
		}
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}

// reach is what a webhook is asked about that an upgrade can't do without.
type reach struct {
	rule world.WebhookRule
	// all tells that every kind is meant, not only some of Kubernetes' own.
	all bool
	// namespaces are the guarded ones that it covers.
	namespaces []string
	// cluster tells that it covers objects without a namespace.
	cluster bool
}

func judgeWebhook(h *world.Webhook, all *world.Webhooks, guarded []string, t *Target) (v1alpha1.Finding, bool) {
	if !h.FailClosed || !inside(h.Backend) || exempt(h.Conditions) || !matches(h.ObjectSelector, nil) {
		return v1alpha1.Finding{}, false
	}
	r, found := reachOf(h, all, guarded)
	if !found {
		return v1alpha1.Finding{}, false
	}
	trouble, stuck := backendTrouble(h.Backend, t)
	summary := fmt.Sprintf("Webhook %s of %s fails closed for %s, and is answered inside this cluster by %s%s",
		h.Name, h.Owner, r.words(), backendName(h.Backend), trouble)
	verdict := v1alpha1.VerdictWarn
	if stuck || t.Nodes != nil || r.all && len(r.namespaces) > 0 {
		verdict = v1alpha1.VerdictBlock
	}
	return finding(verdict, summary, exclusion(h, guarded), []world.Ref{h.Owner}), true
}

// inside tells whether a webhook is answered by Pods of the cluster that asks.
func inside(b world.WebhookBackend) bool {
	if b.Service != "" {
		return true
	}
	u, err := url.Parse(b.URL)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local")
}

func backendName(b world.WebhookBackend) string {
	if b.Service == "" {
		return b.URL
	}
	return "Service " + b.Namespace + "/" + b.Service
}

// backendTrouble says why nobody answers, or may not for a while; stuck tells that an upgrade would meet it.
func backendTrouble(b world.WebhookBackend, t *Target) (words string, stuck bool) {
	switch {
	case b.Service == "":
		return "", false
	case !b.Found:
		return ", which does not exist", true
	case !b.Ready:
		return ", which has no ready endpoint", true
	}
	for _, c := range t.Components {
		if c.Action == v1alpha1.ActionNone {
			continue
		}
		for _, o := range t.Sets[c.Name].Objects {
			if o.Ref.Kind == "Service" && o.Ref.Namespace == b.Namespace && o.Ref.Name == b.Service {
				return fmt.Sprintf(", whose Pods the upgrade of %s replaces", c.Name), true
			}
		}
	}
	return "", false
}

// exempt tells that match conditions leave the system's own requests out. They are expressions; what counts is whether
// they speak of the system at all.
func exempt(conditions []string) bool {
	for _, c := range conditions {
		for _, name := range []string{"system:apiserver", "system:masters", "system:nodes", "system:node:", "system:kube-", "kube-system"} {
			if strings.Contains(c, name) {
				return true
			}
		}
	}
	return false
}

// matches applies a selector; nil matches everything, one that can't be read too.
func matches(s *metav1.LabelSelector, set map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err != nil || selector.Matches(labels.Set(set))
}

// reachOf finds the widest rule that covers something guarded.
func reachOf(h *world.Webhook, all *world.Webhooks, guarded []string) (reach, bool) {
	var namespaces []string
	for _, ns := range guarded {
		set, exists := all.Namespaces[ns]
		if !exists { // it is made with the label that every namespace gets
			set = map[string]string{"kubernetes.io/metadata.name": ns}
		}
		if matches(h.NamespaceSelector, set) {
			namespaces = append(namespaces, ns)
		}
	}
	var best reach
	found := false
	for _, rule := range h.Rules {
		r := reach{rule: rule}
		var covers bool
		if r.all, covers = systemKinds(rule); !covers {
			continue
		}
		if rule.Scope != "Cluster" {
			r.namespaces = namespaces
		}
		r.cluster = rule.Scope != "Namespaced" && clusterKinds(rule)
		if len(r.namespaces) == 0 && !r.cluster {
			continue
		}
		if !found || r.all && !best.all || len(r.namespaces) > len(best.namespaces) && r.all == best.all {
			best, found = r, true
		}
	}
	return best, found
}

// systemKinds tells whether a rule is about kinds that Kubernetes itself is made of, and whether it is about all of them.
func systemKinds(r world.WebhookRule) (all, covers bool) {
	if len(r.Operations) > 0 && !slices.ContainsFunc(r.Operations, func(o string) bool { return o != "CONNECT" }) {
		return false, false
	}
	anyGroup := slices.Contains(r.Groups, "*")
	if !anyGroup && !slices.ContainsFunc(r.Groups, builtIn) {
		return false, false
	}
	if slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*") {
		return true, true
	}
	return false, slices.ContainsFunc(r.Resources, func(n string) bool { return slices.Contains(systemResources(), n) })
}

// clusterKinds tells whether a rule may be about objects without a namespace.
func clusterKinds(r world.WebhookRule) bool {
	return slices.ContainsFunc(r.Resources, func(n string) bool {
		return n == "*" || n == "*/*" || slices.Contains(clusterResources(), n)
	})
}

// builtIn tells the API groups of Kubernetes from those of others.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains([]string{
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
		"events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io",
		"scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
	}, group)
}

func systemResources() []string {
	return append([]string{
		"pods", "services", "endpoints", "secrets", "configmaps", "serviceaccounts", "events", "deployments", "daemonsets", "replicasets",
		"statefulsets", "jobs", "roles", "rolebindings", "leases", "endpointslices",
	}, clusterResources()...)
}

func clusterResources() []string {
	return []string{
		"nodes", "namespaces", "persistentvolumes", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "apiservices", "priorityclasses",
		"flowschemas", "prioritylevelconfigurations", "servicecidrs", "ipaddresses", "certificatesigningrequests", "storageclasses", "csinodes", "runtimeclasses",
		"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
	}
}

// words say what a webhook is asked about.
func (r reach) words() string {
	rule := fmt.Sprintf("resources [%s] of API groups [%s]", strings.Join(r.rule.Resources, " "), groups(r.rule.Groups))
	switch {
	case len(r.namespaces) > 0:
		return rule + " also in namespace " + strings.Join(r.namespaces, ", ")
	default:
		return rule + " also without a namespace, which no namespaceSelector excludes"
	}
}

func groups(names []string) string {
	out := slices.Clone(names)
	for i := range out {
		if out[i] == "" {
			out[i] = `""`
		}
	}
	return strings.Join(out, " ")
}

// exclusion is the command that takes the guarded namespaces and the API server's own requests out of a webhook.
func exclusion(h *world.Webhook, guarded []string) string {
	selector := h.NamespaceSelector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: guarded,
	})
	at := fmt.Sprintf("/webhooks/%d/", h.Index)
	condition := map[string]any{"name": "not-the-api-server", "expression": `request.userInfo.username != "system:apiserver"`}
	ops := []map[string]any{{"op": "add", "path": at + "namespaceSelector", "value": selector}}
	if len(h.Conditions) == 0 {
		ops = append(ops, map[string]any{"op": "add", "path": at + "matchConditions", "value": []any{condition}})
	} else {
		ops = append(ops, map[string]any{"op": "add", "path": at + "matchConditions/-", "value": condition})
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return "exclude namespaces " + strings.Join(guarded, ", ") + " from it"
	}
	return fmt.Sprintf("kubectl patch %s %s --type=json -p '%s'", strings.ToLower(h.Owner.Kind), h.Owner.Name, strings.ReplaceAll(string(patch), "'", `'\''`))
}
