// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/capstan-dev/capstan/internal/world"
)

// Leftovers returns dry, the API server's answer to a dry-run apply by Capstan, without the fields that the takeover will
// remove as well: fields that only installers own and that the new manifest has not. A dry run of the apply alone does
// not show them, because the takeover that comes before it can't be part of the same dry run.
//
// found is false if there are none. Defaults that an installer owns are among the leftovers; they come back by
// themselves, so a caller that wants the truth sends the result as a dry-run update and compares the answer with the
// object as it is. Of a CustomResourceDefinition the few defaults are known, so there they are no leftovers.
func Leftovers(dry *unstructured.Unstructured) (without *unstructured.Unstructured, found bool, err error) {
	all, err := owners(dry)
	if err != nil {
		return nil, false, err
	}
	installed, others := fieldpath.NewSet(), fieldpath.NewSet()
	for _, o := range all {
		if o.kind == world.ManagerInstaller && o.entry.Subresource == "" {
			installed = installed.Union(o.fields)
			continue
		}
		others = others.Union(o.fields)
	}
	out := dry.DeepCopy()
	for path := range installed.Difference(others).All() {
		if len(path) == 0 || hasBelow(others, path) {
			continue // somebody else has fields in it: it stays as a container
		}
		if isKeyField(path) {
			continue // it goes with its list entry or not at all
		}
		if dry.GetKind() == crdKind && slices.Contains(crdDefaults(), path.String()) {
			continue // it would come back
		}
		if _, ok := lookup(out.Object, path); !ok {
			continue
		}
		found = true
		out.Object, _ = remove(out.Object, path).(map[string]any)
	}
	return out, found, nil
}

const crdKind = "CustomResourceDefinition"

// crdDefaults are the fields that the API server fills in (k8s.io/apiextensions-apiserver,
// pkg/apis/apiextensions/v1/defaults.go).
func crdDefaults() []string {
	return []string{
		".spec.conversion", ".spec.conversion.strategy", ".spec.names.listKind", ".spec.names.singular",
		".spec.conversion.webhook.clientConfig.service.port", ".spec.preserveUnknownFields",
	}
}

// isKeyField tells whether path is a field that identifies the list entry it is in.
func isKeyField(path fieldpath.Path) bool {
	if len(path) < 2 {
		return false
	}
	entry, field := path[len(path)-2], path[len(path)-1]
	if entry.Key == nil || field.FieldName == nil {
		return false
	}
	return slices.ContainsFunc(*entry.Key, func(f value.Field) bool { return f.Name == *field.FieldName })
}
