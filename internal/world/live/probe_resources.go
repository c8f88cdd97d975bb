// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// resourcesOf returns served resources that a rule is about, at most as many as are tried.
func (r *round) resourcesOf(rule admissionv1.RuleWithOperations) []*apimeta.RESTMapping {
	var out []*apimeta.RESTMapping
	for _, resource := range r.concrete(rule) {
		gvk, err := r.clients.mapper.KindFor(resource)
		if err != nil {
			continue
		}
		m, err := r.clients.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil || !inScope(rule, m) {
			continue
		}
		if out = append(out, m); len(out) == probeResources {
			break
		}
	}
	return out
}

func inScope(rule admissionv1.RuleWithOperations, m *apimeta.RESTMapping) bool {
	switch ptr.Deref(rule.Scope, admissionv1.AllScopes) {
	case admissionv1.NamespacedScope:
		return m.Scope.Name() == apimeta.RESTScopeNameNamespace
	case admissionv1.ClusterScope:
		return m.Scope.Name() == apimeta.RESTScopeNameRoot
	default:
		return true
	}
}

// concrete returns resources by name for a rule, which may have wildcards in each place. A rule about everything is
// tried with ConfigMaps.
func (r *round) concrete(rule admissionv1.RuleWithOperations) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, group := range rule.APIGroups {
		for _, version := range rule.APIVersions {
			gv := schema.GroupVersion{Group: group, Version: version}
			if version == "*" {
				gv.Version = ""
			}
			if group == "*" {
				gv = schema.GroupVersion{Version: "v1"}
			}
			for _, resource := range rule.Resources {
				out = append(out, r.named(gv, resource)...)
			}
		}
	}
	return out
}

// named returns the resources that an entry of a rule names; subresources are left out.
func (r *round) named(gv schema.GroupVersion, resource string) []schema.GroupVersionResource {
	switch {
	case resource == "*", resource == "*/*":
		return r.served(gv)
	case strings.Contains(resource, "/"):
		return nil
	}
	return []schema.GroupVersionResource{gv.WithResource(resource)}
}

// served returns the resources of a group, in one version, that can be created and updated.
func (r *round) served(gv schema.GroupVersion) []schema.GroupVersionResource {
	if gv.Group == "" {
		return []schema.GroupVersionResource{{Version: "v1", Resource: "configmaps"}}
	}
	_, lists, err := r.clients.discovery.ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return nil
	}
	var out []schema.GroupVersionResource
	for _, l := range lists {
		found, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil || found.Group != gv.Group || (gv.Version != "" && found.Version != gv.Version) {
			continue
		}
		for _, res := range l.APIResources {
			if !strings.Contains(res.Name, "/") && slices.Contains(res.Verbs, "create") && slices.Contains(res.Verbs, "patch") {
				out = append(out, found.WithResource(res.Name))
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}
