// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Blank is a value of a Secret that an empty variable was written into. It can't be seen in the rendered Secret where the
// variable is only a part of the value, a line of a configuration file for example.
type Blank struct {
	// Object is the Secret.
	Object v1alpha1.ObjectReference `json:"object"`
	// Key is the key of its data.
	Key string `json:"key"`
	// Variable is the variable's name.
	Variable string `json:"variable"`
	// Default tells that the release does not set the variable, and its default in the manifest is empty.
	Default bool `json:"default,omitempty"`
}

// marker stands for an empty variable in a trial rendering. It survives the functions that change letters.
const marker = "CAPSTANBLANK"

// findBlanks renders the manifest once more with a marker in the place of each empty variable, and looks where the
// markers come out. Secrets are named as the component has them in the end.
func (r *Rendered) findBlanks(raw []byte) error {
	c := r.Component
	if !bytes.Contains(raw, []byte("Secret")) || !bytes.Contains(raw, []byte("${")) {
		return nil
	}
	processor := yamlprocessor.NewSimpleProcessor()
	used, err := processor.GetVariableMap(raw)
	if err != nil {
		return fmt.Errorf("look for empty variables of %s: %w", c.Name, err)
	}
	names := blankNames(c, used)
	if len(names) == 0 {
		return nil
	}
	trial, err := processor.Process(raw, func(name string) (string, error) {
		if i := slices.Index(names, name); i >= 0 {
			return fmt.Sprintf("%s%dX", marker, i), nil
		}
		if value, ok := c.Variables[name]; ok {
			return value, nil
		}
		return "", fmt.Errorf("variable %s is not set", name)
	})
	if err != nil {
		return fmt.Errorf("look for empty variables of %s: %w", c.Name, err)
	}
	objects, err := parseObjects(c.Name, Describe(c.Source), trial)
	if err != nil {
		return fmt.Errorf("look for empty variables of %s: %w", c.Name, err)
	}
	for _, o := range objects {
		r.addBlanks(o.Unstructured, names)
	}
	return nil
}

// blankNames are the variables in use whose value holds nothing.
func blankNames(c v1alpha1.Component, used map[string]*string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		value, set := c.Variables[name]
		if !set && used[name] != nil {
			value = strings.Trim(*used[name], `"'`)
		}
		if strings.TrimSpace(value) == "" {
			out = append(out, name)
		}
	}
	return out
}

func (r *Rendered) addBlanks(trial *unstructured.Unstructured, names []string) {
	secret := r.secret(trial)
	if secret == nil {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedMap(trial.Object, field)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text := strings.ToUpper(fmt.Sprint(values[key]))
			for i, name := range names {
				if !strings.Contains(text, fmt.Sprintf("%s%dX", marker, i)) {
					continue
				}
				_, set := r.Component.Variables[name]
				r.Blanks = append(r.Blanks, Blank{
					Object: v1alpha1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secret.GetNamespace(), Name: secret.GetName()},
					Key:    key, Variable: name, Default: !set,
				})
			}
		}
	}
}

// secret returns the component's own Secret of that name: a provider's is in the provider's namespace, whatever the
// manifest says.
func (r *Rendered) secret(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GetKind() != "Secret" || u.GetAPIVersion() != "v1" {
		return nil
	}
	for _, o := range r.Objects {
		same := o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" && o.GetName() == u.GetName()
		if same && (r.Component.Provider != nil || o.GetNamespace() == u.GetNamespace()) {
			return o
		}
	}
	return nil
}
