// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
)

func render(t *testing.T, c v1alpha1.Component, raw string) *release.Rendered {
	t.Helper()
	r, err := release.Render(c, []byte(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func TestAStoredComponentIsReadBackWhole(t *testing.T) {
	t.Parallel()
	want, err := release.Render(demo(), testdata(t, "provider.yaml"), []byte(metadataYAML))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := release.DecodeRendered(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestAStoredComponentThatWasChangedIsRefused(t *testing.T) {
	t.Parallel()
	encoded, err := render(t, manifest("a"), configMap("a")).Encode()
	if err != nil {
		t.Fatal(err)
	}
	changed := render(t, manifest("a"), configMap("b"))
	cases := map[string]struct {
		in   []byte
		want report
	}{
		"another name": {bytes.Replace(encoded, []byte("component: a\n  name: a\n"), []byte("component: a\n  name: b\n"), 1), report{
			`the stored component "a" was changed: its digest is ` + changed.Digest + `, want ` + render(t, manifest("a"), configMap("a")).Digest, "Corrupt", 3,
		}},
		"cut off":  {encoded[:20], report{"a stored component is incomplete", "Corrupt", 3}},
		"not ours": {[]byte("a: b\n---\nc: d\n"), report{`a stored component can't be read: error unmarshaling JSON: while decoding JSON: json: unknown field "a"`, "Corrupt", 3}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := release.DecodeRendered(tc.in)
			if diff := cmp.Diff(reportOf(err), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestABundleIsInOrderAndItsDigestCoversEverything(t *testing.T) {
	t.Parallel()
	a, b := manifest("a", "b"), manifest("b")
	r := &v1alpha1.Release{}
	r.Name = "r"
	r.Spec = v1alpha1.ReleaseSpec{Version: "v1.0.0", Components: []v1alpha1.Component{a, b}}
	bundle := func(r *v1alpha1.Release, raw string) *release.Bundle {
		got, err := release.NewBundle(r, []*release.Rendered{render(t, a, raw), render(t, b, configMap("b"))})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := bundle(r, configMap("a"))
	if diff := cmp.Diff(first.Levels, [][]string{{"b"}, {"a"}}); diff != "" {
		t.Errorf("levels (-got +want):\n%s", diff)
	}
	if got := []string{first.Components[0].Component.Name, first.Components[1].Component.Name}; got[0] != "b" || got[1] != "a" {
		t.Errorf("components are in the order %v", got)
	}
	if first.Component("a") != first.Components[1] || first.Component("z") != nil {
		t.Error("a component is not found by its name, or one is that is not there")
	}
	later := r.DeepCopy()
	later.Spec.Version = "v1.0.1"
	digests := map[string]string{
		"the same":        bundle(r, configMap("a")).Digest,
		"another spec":    bundle(later, configMap("a")).Digest,
		"another content": bundle(r, configMap("c")).Digest,
	}
	if digests["the same"] != first.Digest {
		t.Error("the same content has two digests")
	}
	if digests["another spec"] == first.Digest || digests["another content"] == first.Digest {
		t.Errorf("a change does not change the digest: %v", digests)
	}
}

func TestABundleRefusesTwoOwnersOfAnObject(t *testing.T) {
	t.Parallel()
	shared := provider("shared", "AddonProvider")
	shared.Provider.Namespace = "demo-system"
	cases := map[string]struct {
		components []*release.Rendered
		want       report
	}{
		"an object in two manifests": {
			[]*release.Rendered{render(t, manifest("a"), configMap("x")), render(t, manifest("b"), configMap("x"))},
			report{`components "a" and "b" both have ConfigMap x (next: leave it out of one of them)`, "DuplicateObject", 2},
		},
		"providers in one namespace": {
			[]*release.Rendered{render(t, demo(), string(testdata(t, "provider.yaml"))), render(t, shared, configMap("x"))},
			report{`components "demo" and "shared" both have Namespace demo-system (next: give the providers namespaces of their own)`, "DuplicateObject", 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &v1alpha1.Release{}
			for _, c := range tc.components {
				r.Spec.Components = append(r.Spec.Components, c.Component)
			}
			_, err := release.NewBundle(r, tc.components)
			if diff := cmp.Diff(reportOf(err), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}
