// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

const docker = `
apiVersion: v1
kind: Namespace
metadata: {name: docker-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: docker-system}
data: {a: one}
`

const heldMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: precious, namespace: docker-system, finalizers: [example.com/hold]}
`

// TestC29_NamespaceIsTerminating meets a provider namespace on its way out, before a run and in the middle of one.
func TestC29_NamespaceIsTerminating(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]apitest.Options{"nothing in it has gone yet": {}, "all but what is held has gone": {ControllerManager: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, o)
			p := part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider", manifests: docker}
			b.apply(t, docker+"---"+heldMap)
			b.installed(t, p)
			b.end(t, "docker-system")
			p.version = "v1.1.0"
			dir := writeRelease(t, "v1.1.0", "", p)
			r := b.capstan(t, "plan", dir)
			b.refused(t, r, "CAP-TERMINATING", "Namespace docker-system", "ConfigMap docker-system/precious (finalizer example.com/hold)")
			b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), "docker-system/precious")
			b.neverDeletes(t)
		})
	}
	t.Run("of a provider that the release does not have", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		b.apply(t, docker+"---"+heldMap)
		b.installed(t, part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider"})
		b.end(t, "docker-system")
		dir := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: tool})
		b.refused(t, b.capstan(t, "plan", dir), "Namespace docker-system", "precious")
	})
	t.Run("in the middle of a run", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		p := part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider", manifests: docker}
		b.apply(t, docker+"---"+heldMap)
		b.installed(t, p)
		// The run waits for a Deployment that nobody rolls; then the namespace goes.
		stuck := writeRelease(t, "v1.1.0", "", part{name: "docker", version: "v1.1.0", provider: "InfrastructureProvider", manifests: docker + "---" + deployment("docker-system", "manager")})
		r := b.capstan(t, "upgrade", stuck, "--yes", "--stall-limit", "3s")
		want(t, r, problem.ExitFailed)
		b.end(t, "docker-system")
		want(t, b.capstan(t, "resume"), problem.ExitFailed, "Namespace docker-system is being deleted", "ConfigMap docker-system/precious (finalizer example.com/hold)")
		b.get(t, "apps/v1", "Deployment", "docker-system", "manager")
		if got := b.get(t, "clusterctl.cluster.x-k8s.io/v1alpha3", "Provider", "docker-system", "infrastructure-docker"); got.Object["version"] != "v1.0.0" {
			t.Errorf("the inventory says %v, want v1.0.0", got.Object["version"])
		}
		b.neverDeletes(t)
	})
}

func deployment(namespace, name string) string {
	return strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: manager, image: "registry.example.com/NAME:v1", args: [--leader-elect]}]}
`)
}

// end deletes a namespace as somebody else would.
func (b *bed) end(t *testing.T, namespace string) {
	t.Helper()
	u := objects(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}")[0]
	if err := b.of(t, u).Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// neverDeletes checks that Capstan deleted no namespace.
func (b *bed) neverDeletes(t *testing.T) {
	t.Helper()
	for _, w := range b.writes(t) {
		if strings.HasPrefix(w, "delete") && strings.Contains(w, " namespaces ") {
			t.Errorf("Capstan deleted a namespace: %s", w)
		}
	}
}
