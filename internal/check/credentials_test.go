// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

func secret(kind string, values map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "n", "name": "s"}, kind: values,
	}}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	live := secret("data", map[string]any{"a": "b2xk", "b": "c2FtZQ==", "none": ""}) // old, same, nothing
	ref := v1alpha1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "n", Name: "s"}
	for name, tc := range map[string]struct {
		live, wanted, result *unstructured.Unstructured
		blanks               []release.Blank
		prune                []v1alpha1.ObjectReference
		action               v1alpha1.Action
		want                 []string
	}{
		"the same data in another form":        {live: live, wanted: secret("stringData", map[string]any{"a": "old", "b": "same", "none": ""})},
		"a new Secret":                         {wanted: secret("stringData", map[string]any{"a": "old"})},
		"a key that comes":                     {live: live, wanted: secret("stringData", map[string]any{"a": "old", "b": "same", "c": "new", "none": "full"})},
		"a component that stays":               {live: live, wanted: secret("stringData", map[string]any{"a": "new"}), action: v1alpha1.ActionNone},
		"another value":                        {live: live, wanted: secret("stringData", map[string]any{"a": "new", "b": "same", "none": ""}), want: []string{"Block CAP-CREDENTIALS Secret n/s of c would get other data: a (sha256 cba06b57, then sha256 11507a0e)"}},
		"what the API server says counts":      {live: live, wanted: secret("stringData", map[string]any{"a": "new"}), result: live},
		"a value of white space":               {live: live, wanted: secret("stringData", map[string]any{"a": " \n", "b": "same", "none": ""}), want: []string{"Block CAP-CREDENTIALS-EMPTY Secret n/s of c would become empty: a is now sha256 cba06b57"}},
		"a null":                               {live: live, wanted: secret("stringData", map[string]any{"a": nil, "b": "same", "none": ""}), want: []string{"Block CAP-CREDENTIALS-EMPTY Secret n/s of c would become empty: a is now sha256 cba06b57"}},
		"a key that goes":                      {live: live, wanted: secret("data", map[string]any{"b": "c2FtZQ==", "none": ""}), want: []string{"Block CAP-CREDENTIALS Secret n/s of c would get other data: a (sha256 cba06b57, then gone)"}},
		"a Secret that goes":                   {wanted: secret("data", nil), prune: []v1alpha1.ObjectReference{ref}, want: []string{"Block CAP-CREDENTIALS Secret n/s is no longer part of c and would be deleted with its data"}},
		"an empty variable in a new Secret":    {wanted: secret("stringData", map[string]any{"a": "x"}), blanks: []release.Blank{{Object: ref, Key: "a", Variable: "V"}}, want: []string{"Block CAP-CREDENTIALS-EMPTY Secret n/s of c would be written with an empty variable: a holds ${V}"}},
		"an empty default in a new Secret":     {wanted: secret("stringData", map[string]any{"a": "x"}), blanks: []release.Blank{{Object: ref, Key: "a", Variable: "V", Default: true}}},
		"an empty default in a live Secret":    {live: live, wanted: secret("stringData", map[string]any{"a": "", "b": "same", "none": ""}), blanks: []release.Blank{{Object: ref, Key: "a", Variable: "V", Default: true}}, want: []string{"Block CAP-CREDENTIALS-EMPTY Secret n/s of c would be written with an empty variable: a holds ${V}"}},
		"an empty default that changes no-one": {live: live, wanted: secret("stringData", map[string]any{"a": "old", "b": "same", "none": ""}), blanks: []release.Blank{{Object: ref, Key: "a", Variable: "V", Default: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := tc.action
			if action == "" {
				action = v1alpha1.ActionUpgrade
			}
			target := &Target{
				Components: []v1alpha1.PlannedComponent{{Name: "c", Action: action, Prune: tc.prune}},
				Bundle: &release.Bundle{Components: []*release.Rendered{{
					Component: v1alpha1.Component{Name: "c"}, Objects: []*unstructured.Unstructured{tc.wanted}, Blanks: tc.blanks,
				}}},
				Sets: map[string]world.Set{"c": {Objects: []world.Object{{Ref: world.Ref(ref), Found: tc.live != nil, Live: tc.live, Result: tc.result}}}},
			}
			var got []string
			for _, f := range Run([]Check{credentials(), emptyCredentials()}, nil, target) {
				got = append(got, string(f.Verdict)+" "+f.ID+" "+f.Summary)
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}
