// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Version is one version of a CRD.
type Version struct {
	Name    string
	Served  bool
	Storage bool
}

// Definition is what a CRD says about where its objects are stored.
type Definition struct {
	// Name is the CRD's name: the resource with its group.
	Name, Group, Kind string
	// Versions are in the order of the CRD.
	Versions []Version
	// Webhook tells that a webhook converts between them; else they differ in nothing but their name.
	Webhook bool
	// Stored are the versions that objects may be stored in, by the CRD's status.
	Stored []string
}

// Read returns what a CRD says.
func Read(crd *unstructured.Unstructured) (Definition, error) {
	d := Definition{Name: crd.GetName()}
	var errs [5]error
	d.Group, _, errs[0] = unstructured.NestedString(crd.Object, "spec", "group")
	d.Kind, _, errs[1] = unstructured.NestedString(crd.Object, "spec", "names", "kind")
	d.Stored, _, errs[2] = unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	strategy, _, err := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	d.Webhook, errs[3] = strategy == "Webhook", err
	// Not NestedSlice, which copies: schemas are large.
	versions, _, err := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	errs[4] = err
	for _, err := range errs {
		if err != nil {
			return d, fmt.Errorf("read CRD %s: %w", d.Name, err)
		}
	}
	list, _ := versions.([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			name, _ := m["name"].(string)
			d.Versions = append(d.Versions, Version{Name: name, Served: m["served"] == true, Storage: m["storage"] == true})
		}
	}
	return d, nil
}

// Storage returns the version that objects are stored in when they are written, empty if there is none.
func (d Definition) Storage() string {
	for _, v := range d.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// Names returns the versions that there are.
func (d Definition) Names() []string {
	out := make([]string, 0, len(d.Versions))
	for _, v := range d.Versions {
		out = append(out, v.Name)
	}
	return out
}

// Served returns the versions that are served.
func (d Definition) Served() []string {
	var out []string
	for _, v := range d.Versions {
		if v.Served {
			out = append(out, v.Name)
		}
	}
	return out
}

// ReadAt returns the version in which objects are best read and written: the storage version if it is served, which needs
// no conversion, else the first that is served.
func (d Definition) ReadAt() string {
	served := d.Served()
	if s := d.Storage(); slices.Contains(served, s) || len(served) == 0 {
		return s
	}
	return served[0]
}

// Target returns the version that objects have to be stored in so that next can be applied: the live storage version if
// next has it, else the storage version of next if the live CRD has that, else the first that both have; empty if they
// have none in common.
func (d Definition) Target(next Definition) string {
	names := next.Names()
	if s := d.Storage(); slices.Contains(names, s) {
		return s
	}
	if s := next.Storage(); slices.Contains(d.Names(), s) {
		return s
	}
	for _, v := range names {
		if slices.Contains(d.Names(), v) {
			return v
		}
	}
	return ""
}

// Gone returns those of versions that d does not have.
func (d Definition) Gone(versions []string) []string {
	return Missing(versions, d.Names())
}

// Missing returns those of wanted that are not in have.
func Missing(wanted, have []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(v string) bool { return slices.Contains(have, v) })
}

// Common returns those of a that are in b too, in the order of a.
func Common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(v string) bool { return !slices.Contains(b, v) })
}
