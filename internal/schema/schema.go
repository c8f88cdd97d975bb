// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema judges objects by the schema of a CRD as the API server does: what the schema has not is dropped,
// defaults are filled in, then structure and CEL rules are checked. It talks to no API server, so an object can be judged
// by a CRD that is not there yet.
//
// It judges an object as a new one. The API server is more lenient with an update: what was wrong before and is not
// touched may stay wrong. That lasts until somebody touches it, so it counts as wrong here. Rules that compare with the
// object before (oldSelf) are left out.
package schema

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Validator judges objects by the schema of one version of a CRD.
type Validator struct {
	apiVersion string
	structural *structuralschema.Structural
	basic      validation.SchemaValidator
	// rules compiles the CEL rules, which takes a while, when the first object is judged.
	rules func() *cel.Validator
}

// Fault is why an object does not fit.
type Fault struct {
	// Path is the field.
	Path string
	// Rule is what the schema says, in the API server's words.
	Rule string
}

// String returns both.
func (f Fault) String() string { return f.Path + ": " + f.Rule }

// New returns the validator of a version of a CRD; nil if that version takes everything.
func New(crd *unstructured.Unstructured, version string) (*Validator, error) {
	in, group, err := schemaOf(crd, version)
	if err != nil || in == nil {
		return nil, err
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, &props, nil); err != nil {
		return nil, fmt.Errorf("read the schema of %s %s: %w", crd.GetName(), version, err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s %s: %w", crd.GetName(), version, err)
	}
	basic, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s %s: %w", crd.GetName(), version, err)
	}
	return &Validator{
		apiVersion: group + "/" + version, structural: structural, basic: basic,
		rules: sync.OnceValue(func() *cel.Validator { return cel.NewValidator(structural, true, celconfig.PerCallLimit) }),
	}, nil
}

func rawSchema(crd *unstructured.Unstructured, version string) any {
	versions, _, err := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	if err != nil {
		return nil
	}
	list, _ := versions.([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok && m["name"] == version {
			return m["schema"]
		}
	}
	return nil
}

// schemaOf finds the schema of a version without converting those of the others.
func schemaOf(crd *unstructured.Unstructured, version string) (*apiextensionsv1.JSONSchemaProps, string, error) {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return nil, "", fmt.Errorf("read CRD %s: %w", crd.GetName(), err)
	}
	versions, _, err := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	if err != nil {
		return nil, "", fmt.Errorf("read CRD %s: %w", crd.GetName(), err)
	}
	list, _ := versions.([]any)
	for _, v := range list {
		m, ok := v.(map[string]any)
		if !ok || m["name"] != version {
			continue
		}
		raw, found, err := unstructured.NestedFieldNoCopy(m, "schema", "openAPIV3Schema")
		if err != nil || !found {
			return nil, group, err
		}
		fields, ok := raw.(map[string]any)
		if !ok {
			return nil, group, fmt.Errorf("read CRD %s: the schema of %s is no object", crd.GetName(), version)
		}
		out := &apiextensionsv1.JSONSchemaProps{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out); err != nil {
			return nil, group, fmt.Errorf("read the schema of %s %s: %w", crd.GetName(), version, err)
		}
		return out, group, nil
	}
	return nil, group, fmt.Errorf("read CRD %s: it has no version %s", crd.GetName(), version)
}

// Judge returns what is wrong with an object once it is read in the validator's version, nil if nothing is. The object is
// changed: it is as the API server would give it out then.
func (v *Validator) Judge(ctx context.Context, obj *unstructured.Unstructured) []Fault {
	obj.SetAPIVersion(v.apiVersion)
	pruning.Prune(obj.Object, v.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, v.structural)
	defaulting.Default(obj.Object, v.structural)
	errs := validation.ValidateCustomResource(nil, obj.Object, v.basic)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, obj.Object)...)
	if rules := v.rules(); rules != nil && !hinders(errs) {
		broken, _ := rules.Validate(ctx, nil, v.structural, obj.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	return faults(errs)
}

// hinders tells whether CEL rules can't be evaluated: they rely on types, sizes and required fields.
func hinders(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		case field.ErrorTypeNotFound, field.ErrorTypeDuplicate, field.ErrorTypeInvalid, field.ErrorTypeForbidden, field.ErrorTypeInternal, field.ErrorTypeTooFew,
			field.ErrorTypeTooShort:
		}
	}
	return false
}

func faults(errs field.ErrorList) []Fault {
	out := make([]Fault, 0, len(errs))
	for _, e := range errs {
		path := e.Field
		if path == "" || path == "<nil>" {
			path = "(the object)"
		}
		rule := strings.TrimPrefix(e.ErrorBody(), string(e.Type)+": ")
		out = append(out, Fault{Path: path, Rule: rule})
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
