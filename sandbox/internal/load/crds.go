// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// groupDomain is nobody's: example.com is kept for examples.
	groupDomain = "load.example.com"
	// namespacedEvery: one CRD in three is cluster-scoped.
	clusterScopedEvery = 3
	// objectsCycle: a CRD has 0 to 3 objects.
	objectsCycle = 4
)

func crds() resource {
	return resource{schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "CustomResourceDefinition"}
}

// extraCRD is one CRD that has nothing to do with Cluster API.
type extraCRD int

// words are what the extra CRDs are named after; each group has one CRD of each.
func words() []string {
	return []string{
		"Bucket", "Queue", "Topic", "Database", "Table", "Role", "Key", "Vault", "Zone", "Record",
		"Network", "Subnet", "Gateway", "Route", "Firewall", "Volume", "Snapshot", "Registry", "Pipeline", "Dashboard",
	}
}

func (c extraCRD) kind() string   { return words()[int(c)%len(words())] }
func (c extraCRD) plural() string { return strings.ToLower(c.kind()) + "s" }
func (c extraCRD) group() string {
	return fmt.Sprintf("team-%02d.%s", int(c)/len(words()), groupDomain)
}
func (c extraCRD) namespaced() bool { return int(c)%clusterScopedEvery != 0 }
func (c extraCRD) objects() int     { return int(c) % objectsCycle }

func (c extraCRD) resource() resource {
	return resource{schema.GroupVersionResource{Group: c.group(), Version: "v1", Resource: c.plural()}, c.kind()}
}

// item returns the CRD. One in four serves an old version besides.
func (c extraCRD) item() *item {
	scope := "Cluster"
	if c.namespaced() {
		scope = "Namespaced"
	}
	versions := []any{c.version("v1", true)}
	if int(c)%4 == 1 {
		versions = append(versions, c.version("v1alpha1", false))
	}
	return newItem(crds(), "", c.plural()+"."+c.group(), nil).spec(map[string]any{
		"group": c.group(), "scope": scope, "versions": versions,
		"names": map[string]any{"kind": c.kind(), "listKind": c.kind() + "List", "plural": c.plural(), "singular": strings.ToLower(c.kind())},
	})
}

func (c extraCRD) version(name string, storage bool) map[string]any {
	return map[string]any{
		"name": name, "served": true, "storage": storage, "subresources": map[string]any{"status": map[string]any{}},
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "description": c.kind() + " is an object of a team that has nothing to do with Cluster API.",
			"properties": map[string]any{
				"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
				"spec": c.spec(), "status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			},
		}},
	}
}

// spec is a schema of 10 to 60 fields: between 2 and 12 kB, as most CRDs are.
func (c extraCRD) spec() map[string]any {
	fields := map[string]any{}
	for i := range 10 + int(c)*7%50 {
		name := fmt.Sprintf("parameter%02d", i)
		text := fmt.Sprintf("Parameter %d of the %s. It may be left out, and the provider then chooses what suits the region.", i, strings.ToLower(c.kind()))
		switch i % 4 {
		case 0:
			fields[name] = map[string]any{"type": "string", "description": text, "maxLength": int64(256)}
		case 1:
			fields[name] = map[string]any{"type": "integer", "description": text, "format": "int32", "minimum": int64(0)}
		case 2:
			fields[name] = map[string]any{"type": "array", "description": text, "items": map[string]any{"type": "string"}}
		case 3:
			fields[name] = map[string]any{"type": "object", "description": text, "properties": map[string]any{
				"name": map[string]any{"type": "string"}, "namespace": map[string]any{"type": "string"},
			}}
		}
	}
	return map[string]any{"type": "object", "properties": fields}
}

// instances returns the CRD's objects.
func (c extraCRD) instances() []*item {
	var out []*item
	for i := range c.objects() {
		namespace := ""
		if c.namespaced() {
			namespace = namespaceName((int(c) + i) % tenants)
		}
		out = append(out, newItem(c.resource(), namespace, fmt.Sprintf("%s-%d", strings.ToLower(c.kind()), i), nil).spec(map[string]any{
			"parameter00": "eu-north-1", "parameter01": int64(i), "parameter02": []any{"a", "b"},
			"parameter03": map[string]any{"name": "settings", "namespace": namespaceName(0)},
		}))
	}
	return out
}

// namespaceItems returns the namespaces that everything is in.
func namespaceItems() []*item {
	r := resource{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace"}
	var out []*item
	for i := range tenants {
		out = append(out, newItem(r, "", namespaceName(i), nil))
	}
	return out
}
