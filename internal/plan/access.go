// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

const rbacGroup = "rbac.authorization.k8s.io"

// rights returns what a run of the release does, as rights that it needs: on every object of the release, and on the
// records that Capstan and clusterctl keep.
func rights(b *release.Bundle) []world.AskRight {
	var out []world.AskRight
	add := func(a world.AskRight) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	for _, r := range b.Components {
		for _, o := range r.Objects {
			ref := world.RefOf(o)
			ref.Name = ""
			for _, verb := range []string{"get", "list", "create", "patch", "delete"} {
				if verb == "delete" && slices.Contains([]string{"Namespace", "CustomResourceDefinition"}, ref.Kind) {
					continue // those are never deleted
				}
				add(world.AskRight{Right: world.Right{Verb: verb}, Object: ref})
			}
		}
	}
	for _, a := range ownRights() {
		for _, verb := range a.verbs {
			right := a.Right
			right.Verb = verb
			add(world.AskRight{Right: right})
		}
	}
	return out
}

// verbs is a resource with what is done to it.
type verbs struct {
	world.Right

	verbs []string
}

func ownRights() []verbs {
	own := func(group, resource, subresource, namespace string, of ...string) verbs {
		return verbs{Right: world.Right{Group: group, Resource: resource, Subresource: subresource, Namespace: namespace}, verbs: of}
	}
	return []verbs{
		own("apiextensions.k8s.io", "customresourcedefinitions", "", "", "get", "list", "create", "patch"),
		own("", "namespaces", "", "", "get", "list", "create", "patch"),
		own("capstan.dev", "plans", "", "", "get", "list", "create"),
		own("capstan.dev", "upgrades", "", "", "get", "list", "create", "update"),
		own("capstan.dev", "upgrades", "status", "", "update"),
		own("coordination.k8s.io", "leases", "", "capstan-system", "get", "create", "update"),
		own("", "secrets", "", "capstan-system", "get", "create"),
		own("clusterctl.cluster.x-k8s.io", "providers", "", "", "get", "list", "create", "patch"),
		own("cluster.x-k8s.io", "clusters", "", "", "get", "list", "patch"),
		own("", "pods", "", "", "list", "delete"),
	}
}

// accounts returns the service accounts that the release's controllers run as and that it binds to none of its roles, with
// the rules of the roles that it binds to nobody: whoever manages those bindings has to give what the rules say.
func accounts(b *release.Bundle) []world.AskAccount {
	var objects []*unstructured.Unstructured
	for _, r := range b.Components {
		objects = append(objects, r.Objects...)
	}
	bindings := bindingsOf(objects)
	var out []world.AskAccount
	for _, r := range b.Components {
		needs := unbound(r.Objects, bindings)
		for _, account := range accountsOf(r.Objects) {
			if bindings.bound(account) || len(needs) == 0 {
				continue
			}
			out = append(out, world.AskAccount{
				Account: account, Component: r.Component.Name, Rights: needs,
				InRelease: slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return account.Same(world.RefOf(o)) }),
			})
		}
	}
	return out
}

// accountsOf returns the service accounts that the workloads of a component run as, each once.
func accountsOf(objects []*unstructured.Unstructured) []world.Ref {
	var out []world.Ref
	for _, o := range objects {
		path := []string{"spec", "template", "spec", "serviceAccountName"}
		switch o.GetKind() {
		case "Deployment", "StatefulSet", "DaemonSet", "Job":
		case "CronJob":
			path = append([]string{"spec", "jobTemplate"}, path...)
		default:
			continue
		}
		name, _, err := unstructured.NestedString(o.Object, path...)
		if err != nil || name == "" {
			name = "default"
		}
		ref := world.Ref{APIVersion: "v1", Kind: "ServiceAccount", Namespace: o.GetNamespace(), Name: name}
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// binding is one subject of a binding with the role that it gets.
type binding struct {
	subject world.Ref
	role    world.Ref
}

type bindings []binding

// bindingsOf reads the bindings to roles that are among the objects themselves.
func bindingsOf(objects []*unstructured.Unstructured) bindings {
	var out bindings
	for _, o := range objects {
		if o.GetKind() != "RoleBinding" && o.GetKind() != "ClusterRoleBinding" {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		role := world.Ref{APIVersion: rbacGroup + "/v1", Kind: kind, Name: name}
		if kind == "Role" {
			role.Namespace = o.GetNamespace()
		}
		if !slices.ContainsFunc(objects, func(r *unstructured.Unstructured) bool { return role.Same(world.RefOf(r)) }) {
			continue
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			m, ok := s.(map[string]any)
			if !ok || m["kind"] != "ServiceAccount" {
				continue
			}
			account := world.Ref{APIVersion: "v1", Kind: "ServiceAccount"}
			account.Name, _ = m["name"].(string)
			if account.Namespace, _ = m["namespace"].(string); account.Namespace == "" {
				account.Namespace = o.GetNamespace()
			}
			out = append(out, binding{subject: account, role: role})
		}
	}
	return out
}

func (b bindings) bound(account world.Ref) bool {
	return slices.ContainsFunc(b, func(one binding) bool { return one.subject == account })
}

// unbound returns the rules of a component's roles that are bound to nobody. Roles that are added to others by a label are
// for those.
func unbound(objects []*unstructured.Unstructured, all bindings) []world.Right {
	var out []world.Right
	for _, o := range objects {
		ref := world.RefOf(o)
		if ref.Kind != "Role" && ref.Kind != "ClusterRole" || aggregated(o, objects) ||
			slices.ContainsFunc(all, func(b binding) bool { return b.role.Same(ref) }) {
			continue
		}
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil {
			continue
		}
		for _, rule := range rules {
			if m, ok := rule.(map[string]any); ok {
				out = append(out, rightsOf(m, o.GetNamespace())...)
			}
		}
	}
	slices.SortFunc(out, world.Right.Compare)
	return slices.Compact(out)
}

// aggregated tells that a role is for people, by Kubernetes' own labels, or for another role of the component.
func aggregated(o *unstructured.Unstructured, objects []*unstructured.Unstructured) bool {
	for label := range o.GetLabels() {
		if strings.HasPrefix(label, rbacGroup+"/aggregate-to-") {
			return true
		}
	}
	for _, other := range objects {
		selectors, _, err := unstructured.NestedSlice(other.Object, "aggregationRule", "clusterRoleSelectors")
		if err != nil || other.GetKind() != "ClusterRole" {
			continue
		}
		for _, s := range selectors {
			m, _ := s.(map[string]any)
			want, _, err := unstructured.NestedStringMap(m, "matchLabels")
			if err == nil && len(want) > 0 && has(o.GetLabels(), want) {
				return true
			}
		}
	}
	return false
}

func has(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// rightsOf takes a rule apart.
func rightsOf(rule map[string]any, namespace string) []world.Right {
	list := func(field string) []string {
		out, _, err := unstructured.NestedStringSlice(rule, field)
		if err != nil {
			return nil
		}
		return out
	}
	names := list("resourceNames")
	if len(names) == 0 {
		names = []string{""}
	}
	var out []world.Right
	for _, verb := range list("verbs") {
		for _, path := range list("nonResourceURLs") {
			out = append(out, world.Right{Verb: verb, Path: path})
		}
		for _, group := range list("apiGroups") {
			for _, resource := range list("resources") {
				for _, name := range names {
					r := world.Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name}
					r.Resource, r.Subresource = split(resource)
					out = append(out, r)
				}
			}
		}
	}
	return out
}

func split(resource string) (name, subresource string) {
	name, subresource, _ = strings.Cut(resource, "/")
	return name, subresource
}

// namespaces returns every namespace that the release has or uses.
func namespaces(b *release.Bundle) []string {
	var out []string
	for _, r := range b.Components {
		for _, o := range r.Objects {
			ns := o.GetNamespace()
			if o.GetKind() == "Namespace" {
				ns = o.GetName()
			}
			if ns != "" && !slices.Contains(out, ns) {
				out = append(out, ns)
			}
		}
	}
	return out
}
