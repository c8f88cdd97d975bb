// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ver is one version of a CRD under test.
type ver struct {
	name string
	// unserved versions are known and not served; storage marks the one that is stored.
	unserved, storage bool
	// spec and status are YAML flow schemas of what is below them; empty takes anything.
	spec, status string
}

// kindYAML is a CRD. Scope is Namespaced, or Cluster for plurals that begin with "c-".
func kindYAML(plural, kind string, versions ...ver) string {
	var b strings.Builder
	group, scope := "infrastructure.cluster.x-k8s.io", "Namespaced"
	if strings.HasPrefix(plural, "wide") {
		scope = "Cluster"
	}
	fmt.Fprintf(&b, "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: %s.%s\nspec:\n  group: %s\n  scope: %s\n"+
		"  names: {plural: %s, singular: %s, kind: %s, listKind: %sList}\n  versions:\n", plural, group, group, scope, plural, strings.ToLower(kind), kind, kind)
	open := "{type: object, x-kubernetes-preserve-unknown-fields: true}"
	for _, v := range versions {
		spec, status := v.spec, v.status
		if spec == "" {
			spec = open
		}
		if status == "" {
			status = open
		}
		fmt.Fprintf(&b, "  - name: %s\n    served: %t\n    storage: %t\n    subresources: {status: {}}\n    schema:\n      openAPIV3Schema:\n        type: object\n"+
			"        properties: {spec: %s, status: %s}\n", v.name, !v.unserved, v.storage, spec, status)
	}
	return b.String()
}

func thingYAML(version, kind, namespace, name, content string) string {
	ns := ""
	if namespace != "" {
		ns = ", namespace: " + namespace
	}
	return fmt.Sprintf("---\napiVersion: infrastructure.cluster.x-k8s.io/%s\nkind: %s\nmetadata: {name: %s%s}\n%s\n", version, kind, name, ns, content)
}

// provider is a part that brings CRDs.
func provider(version, manifests string) part {
	return part{
		name: "metal3", version: version, provider: "InfrastructureProvider", manifests: manifests,
		metadata: "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 1, minor: 0, contract: v1beta1}\n- {major: 1, minor: 1, contract: v1beta1}\n",
	}
}

// ready makes a bed on which metal3 v1.0.0 is installed, with these manifests applied one after the other: a CRD that is
// applied again with another storage version keeps the earlier one among its stored versions.
func (b *bed) ready(t *testing.T, manifests ...string) {
	t.Helper()
	for _, m := range manifests {
		b.apply(t, m)
	}
	b.mapper.Reset()
	b.installed(t, provider("v1.0.0", ""))
}

// stored returns status.storedVersions of a CRD.
func (b *bed) stored(t *testing.T, name string) string {
	t.Helper()
	crd := b.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
	versions, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(versions, ",")
}

// list returns all objects of a kind.
func (b *bed) list(t *testing.T, apiVersion, kind string) []unstructured.Unstructured {
	t.Helper()
	b.mapper.Reset()
	m := b.mapping(t, objects(t, "apiVersion: "+apiVersion+"\nkind: "+kind)[0].GroupVersionKind())
	l, err := b.client.Resource(m.Resource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list %s: %v", kind, err)
	}
	return l.Items
}

// applies checks that server-side apply works with an object, as a dry run.
func (b *bed) applies(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	patch := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"by":"gitops"}}}`, u.GetAPIVersion(), u.GetKind(), u.GetName())
	_, err := b.of(t, u).Patch(t.Context(), u.GetName(), types.ApplyPatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "gitops", Force: new(true), DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Errorf("apply to %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// killer stands between Capstan and the API server and kills Capstan at its n-th write of a resource.
type killer struct {
	mu       sync.Mutex
	resource string
	left     int
	kill     context.CancelFunc
}

func (k *killer) count(r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Method != http.MethodPatch || r.URL.Query().Has("dryRun") || !strings.Contains(r.URL.Path, "/"+k.resource+"/") {
		return false
	}
	k.left--
	return k.left == 0
}

// capstanKilled runs a command line that is killed at its n-th write of a resource.
func (b *bed) capstanKilled(t *testing.T, resource string, n int, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k := &killer{resource: resource, left: n, kill: cancel}
	r := command(ctx, b.between(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if k.count(r) {
				k.kill()
			}
			next.ServeHTTP(w, r)
		})
	}), args...)
	if ctx.Err() == nil {
		t.Fatalf("Capstan was not killed\nstdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
	return r
}

// denies tells whether an object can't be written as it is.
func (b *bed) denies(t *testing.T, u *unstructured.Unstructured) func(context.Context) (bool, error) {
	t.Helper()
	c := b.of(t, u)
	return func(ctx context.Context) (bool, error) {
		_, err := c.Patch(ctx, u.GetName(), types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	}
}

// doesWhatIsSaid runs what a plan tells a person to type, where the programs for it are there.
func (b *bed) doesWhatIsSaid(t *testing.T, r result) {
	t.Helper()
	for _, program := range []string{"kubectl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the rest needs %s", program)
		}
	}
	for l := range strings.SplitSeq(r.stdout, "\n") {
		_, steps, found := strings.Cut(l, "To do: kubectl ")
		if !found {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "kubectl "+steps) //nolint:gosec // what a person is told to type
		cmd.Env = append(cmd.Environ(), "KUBECONFIG="+b.Kubeconfig)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("it does not work: %v\nkubectl %s\n%s", err, steps, out)
		}
	}
}

// breaks tells whether server-side apply fails with an object.
func (b *bed) breaks(t *testing.T, u *unstructured.Unstructured) func(context.Context) (bool, error) {
	t.Helper()
	c := b.of(t, u)
	return func(ctx context.Context) (bool, error) {
		patch := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"by":"gitops"}}}`, u.GetAPIVersion(), u.GetKind(), u.GetName())
		_, err := c.Patch(ctx, u.GetName(), types.ApplyPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "x", DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	}
}
