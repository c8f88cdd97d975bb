// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/mask"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// secretValue is one value of a Secret that would not stay as it is.
type secretValue struct {
	object    world.Ref
	component string
	key       string
	// before and after are the values; nil is no value.
	before, after []byte
}

// empty tells that a value would be there and hold nothing, and that it does not hold nothing already.
func (v secretValue) empty() bool {
	return v.after != nil && len(bytes.TrimSpace(v.after)) == 0
}

// text says what becomes of the value, by digest.
func (v secretValue) text() string {
	after := "gone"
	if v.after != nil {
		after = "sha256 " + mask.Digest(v.after)
	}
	return fmt.Sprintf("%s (sha256 %s, then %s)", v.key, mask.Digest(v.before), after)
}

// secretValues returns what would change of the data of live Secrets, in the order of the release.
func secretValues(t *Target) []secretValue {
	var out []secretValue
	for _, c := range t.Components {
		r := t.Bundle.Component(c.Name)
		if r == nil || c.Action == v1alpha1.ActionNone {
			continue
		}
		set := t.Sets[c.Name]
		for i, wanted := range r.Objects {
			if i >= len(set.Objects) || !mask.IsSecret(wanted) || set.Objects[i].Live == nil {
				continue
			}
			out = append(out, changedValues(c.Name, set.Objects[i], wanted)...)
		}
	}
	return out
}

func changedValues(component string, o world.Object, wanted *unstructured.Unstructured) []secretValue {
	before, after := mask.Data(o.Live), mask.Data(wanted)
	if o.Result != nil {
		after = mask.Data(o.Result)
	}
	var out []secretValue
	for _, key := range slices.Sorted(maps.Keys(before)) {
		v := secretValue{object: o.Ref, component: component, key: key, before: before[key]}
		if next, ok := after[key]; ok {
			v.after = append([]byte{}, next...)
		}
		if len(v.before) > 0 && (!bytes.Equal(v.before, v.after) || v.after == nil) {
			out = append(out, v)
		}
	}
	return out
}

func credentials() Check {
	return Check{
		ID: "CAP-CREDENTIALS", Waivable: true,
		Title: "No Secret gets other data unawares",
		Doc: "A release is rendered with its variables, and a Secret in it with them: the second instance of a provider gets the credentials of the first, and a password that was changed " +
			"on the live Secret gets its old value back. The controller then works on the wrong account, or on none. " +
			"The data of each live Secret is compared with what it would be. Values are never shown, only the beginning of their digest.",
		Fix: "Set the variables of the component to the credentials that are in use, or leave the Secret out of the release. " +
			"To change credentials on purpose with an upgrade, accept the finding: --accept CAP-CREDENTIALS='why'.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/2997", "https://github.com/kubernetes-sigs/cluster-api/issues/3044"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, group := range bySecret(secretValues(t)) {
				var parts []string
				for _, v := range group {
					if !v.empty() {
						parts = append(parts, v.text())
					}
				}
				if len(parts) > 0 {
					out = append(out, block(
						fmt.Sprintf("%s of %s would get other data: %s", group[0].object, group[0].component, strings.Join(parts, ", ")),
						"set the component's variables to what is in use, or leave the Secret out of the release", group[0].object))
				}
			}
			return append(out, prunedSecrets(t)...)
		},
	}
}

// prunedSecrets are those that the new version no longer has.
func prunedSecrets(t *Target) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, c := range t.Components {
		for _, r := range c.Prune {
			if r.Kind == "Secret" && r.APIVersion == "v1" {
				out = append(out, block(fmt.Sprintf("%s is no longer part of %s and would be deleted with its data", world.Ref(r), c.Name),
					"if something still reads it, take the component's label off it; else accept", world.Ref(r)))
			}
		}
	}
	return out
}

// bySecret groups values that stand together by their Secret.
func bySecret(values []secretValue) [][]secretValue {
	var out [][]secretValue
	for _, v := range values {
		if n := len(out); n > 0 && out[n-1][0].object == v.object {
			out[n-1] = append(out[n-1], v)
			continue
		}
		out = append(out, []secretValue{v})
	}
	return out
}

func emptyCredentials() Check {
	return Check{
		ID:    "CAP-CREDENTIALS-EMPTY",
		Title: "No Secret becomes empty",
		Doc: "A variable without a value leaves a Secret without a credential. Nothing fails while the release is applied, and then no controller reaches its account. " +
			"A Secret's value that an empty variable is written into, and a live value that would become empty, are always refused.",
		Fix: "Give the variable its value in the component's variables. Where the Secret is to be without that key, take the key out of the manifest.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			changed := secretValues(t)
			for _, v := range changed {
				if v.empty() && !blank(t, v) {
					out = append(out, block(
						fmt.Sprintf("%s of %s would become empty: %s is now sha256 %s", v.object, v.component, v.key, mask.Digest(v.before)),
						"give the variable that it is written from its value", v.object))
				}
			}
			return append(out, blankVariables(t, changed)...)
		},
	}
}

// blank tells that a value is reported with the empty variable that it comes from.
func blank(t *Target, v secretValue) bool {
	r := t.Bundle.Component(v.component)
	return slices.ContainsFunc(r.Blanks, func(b release.Blank) bool { return b.Key == v.key && world.Ref(b.Object) == v.object })
}

// blankVariables are variables without a value that are written into a Secret, whether or not it is there already. One
// that the release leaves at an empty default is the provider's own idea of a fresh Secret; it is reported where it would
// change a live one.
func blankVariables(t *Target, changed []secretValue) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, c := range t.Components {
		r := t.Bundle.Component(c.Name)
		if r == nil || c.Action == v1alpha1.ActionNone {
			continue
		}
		for _, b := range r.Blanks {
			object := world.Ref(b.Object)
			changes := slices.ContainsFunc(changed, func(v secretValue) bool { return v.key == b.Key && v.object == object })
			if b.Default && !changes {
				continue
			}
			out = append(out, block(
				fmt.Sprintf("%s of %s would be written with an empty variable: %s holds ${%s}", object, r.Component.Name, b.Key, b.Variable),
				fmt.Sprintf("set %s in the component's variables", b.Variable), object))
		}
	}
	return out
}
