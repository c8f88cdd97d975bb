// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// twenty are the names of 19 ConfigMaps: with the Namespace they are 20 objects.
func twenty() []string {
	var out []string
	for i := range 19 {
		out = append(out, fmt.Sprintf("part-%02d", i))
	}
	return out
}

func TestC26_PartlyAppliedComponent(t *testing.T) {
	t.Parallel()
	b, n := newBed(t, apitest.Options{}), 0
	for name, tc := range map[string]struct {
		provider string
		// leave makes one of the last eight objects what the interrupted upgrade left.
		leave func(t *testing.T, namespace, name string)
		// want is in the plan besides the count.
		want []string
	}{
		"a manifest whose rest is at the old version": {
			leave: func(t *testing.T, namespace, name string) {
				b.patch(t, b.get(t, "v1", "ConfigMap", namespace, name), `{"metadata":{"annotations":{"capstan.dev/version":"v1.0.0"}},"data":{"version":"v1.0.0"}}`)
			},
		},
		"a manifest whose rest has the old annotation alone": {
			leave: func(t *testing.T, namespace, name string) {
				b.patch(t, b.get(t, "v1", "ConfigMap", namespace, name), `{"metadata":{"annotations":{"capstan.dev/version":"v1.0.0"}}}`)
			},
		},
		"a manifest whose rest lost its record": {
			leave: func(t *testing.T, namespace, name string) {
				b.patch(t, b.get(t, "v1", "ConfigMap", namespace, name), `{"metadata":{"annotations":{"capstan.dev/version":null}}}`)
			},
		},
		"a manifest whose rest is missing": {
			leave: func(t *testing.T, namespace, name string) {
				u := b.get(t, "v1", "ConfigMap", namespace, name)
				if err := b.of(t, u).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"(missing)"},
		},
		"a provider whose inventory says that it is there": {
			provider: "InfrastructureProvider",
			leave: func(t *testing.T, namespace, name string) {
				b.patch(t, b.get(t, "v1", "ConfigMap", namespace, name), `{"data":{"version":"v1.0.0"}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			app := plain(fmt.Sprintf("app%d", n), "v1.1.0", twenty()...)
			namespace := app.name
			if tc.provider != "" {
				app.provider, namespace = tc.provider, app.namespace()
				app.manifests = strings.ReplaceAll(app.manifests, "namespace: "+app.name, "namespace: "+namespace)
				app.manifests = strings.ReplaceAll(app.manifests, "metadata: {name: "+app.name+"}", "metadata: {name: "+namespace+"}")
			}
			release := writeRelease(t, "v1.1.0", "", app)
			want(t, b.capstan(t, "upgrade", release, "--yes"), problem.ExitDone)
			for _, part := range twenty()[11:] {
				tc.leave(t, namespace, part)
			}
			r := b.capstan(t, "plan", release)
			want(t, r, problem.ExitDone, append(tc.want, "8 of 20 objects of "+app.name+" are not at v1.1.0",
				"ConfigMap "+namespace+"/part-11", "ConfigMap "+namespace+"/part-15", "and 3 more", "8 of 20 change")...)
			for _, part := range twenty()[11:] {
				want(t, b.capstan(t, "plan", release, "-o", "json"), problem.ExitDone, `"name": "`+part+`"`)
			}
			want(t, b.capstan(t, "upgrade", release, "--yes"), problem.ExitDone, "Done: at v1.1.0")
			for _, part := range twenty() {
				u := b.get(t, "v1", "ConfigMap", namespace, part)
				if got := b.configMap(t, namespace, part)["version"]; got != "v1.1.0" {
					t.Errorf("%s is at %v", part, got)
				}
				if v := u.GetAnnotations()["capstan.dev/version"]; tc.provider == "" && v != "v1.1.0" {
					t.Errorf("%s is recorded as %q", part, v)
				}
			}
			want(t, b.capstan(t, "plan", release), problem.ExitDone, "Nothing to do")
		})
	}
}
