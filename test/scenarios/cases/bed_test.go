// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// limit is how long the API server may take to bring about what it was asked for.
const limit = 30 * time.Second

// bed is an API server that looks like a management cluster with one node, and nothing running on it.
type bed struct {
	*apitest.Server

	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// newBed starts one. It has a Ready node and clusterctl's inventory, both empty of anything else.
func newBed(t *testing.T, o apitest.Options) *bed {
	t.Helper()
	o.Audit = true
	b := &bed{Server: apitest.Boot(t, o)}
	var err error
	if b.client, err = dynamic.NewForConfig(b.Config); err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(b.Config)
	if err != nil {
		t.Fatal(err)
	}
	b.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	b.apply(t, `
apiVersion: v1
kind: Node
metadata: {name: node-1}
status:
  allocatable: {cpu: "8", memory: 16Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", reason: KubeletReady, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}]
`)
	b.applyDir(t, "cmd/clusterctl/config/crd/bases")
	return b
}

// newFleetBed is a bed with the CRDs of Cluster API's core and kubeadm providers, as their module has them.
func newFleetBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t, apitest.Options{})
	for _, dir := range []string{"core", "bootstrap/kubeadm", "controlplane/kubeadm"} {
		b.applyDir(t, dir+"/config/crd/bases")
	}
	return b
}

// applyDir applies every YAML file of a directory in the Cluster API module.
func (b *bed) applyDir(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("find the Cluster API module: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no YAML files in %s: %v", dir, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f) //nolint:gosec // a file of the module
		if err != nil {
			t.Fatal(err)
		}
		b.apply(t, string(data))
	}
}

// objects decodes YAML documents.
func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := d.Decode(u); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatalf("decode: %v\n%s", err, text)
		case u.Object != nil:
			out = append(out, u)
		}
	}
}

// apply makes objects as an installer would, by server-side apply, status included. It waits until CRDs are served.
func (b *bed) apply(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	return b.applyAs(t, "test", text)
}

// applyAs is apply by a field manager of that name.
func (b *bed) applyAs(t *testing.T, manager, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, u := range objects(t, text) {
		status, hasStatus, _ := unstructured.NestedFieldCopy(u.Object, "status")
		c := b.of(t, u)
		opts := metav1.ApplyOptions{FieldManager: manager, Force: true}
		done, err := c.Apply(t.Context(), u.GetName(), u, opts)
		if err != nil {
			t.Fatalf("apply %s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if hasStatus && u.GetKind() != "CustomResourceDefinition" {
			with := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "status": status}}
			with.SetName(u.GetName())
			with.SetNamespace(u.GetNamespace())
			if done, err = c.ApplyStatus(t.Context(), u.GetName(), with, opts); err != nil {
				t.Fatalf("apply status of %s %s: %v", u.GetKind(), u.GetName(), err)
			}
		}
		if u.GetKind() == "CustomResourceDefinition" {
			b.established(t, u.GetName())
		}
		out = append(out, done)
	}
	return out
}

// of returns the client of an object's kind and namespace.
func (b *bed) of(t *testing.T, u *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	m := b.mapping(t, u.GroupVersionKind())
	if m.Scope.Name() == apimeta.RESTScopeNameNamespace {
		ns := u.GetNamespace()
		if ns == "" {
			ns = "default"
		}
		b.namespace(t, ns)
		return b.client.Resource(m.Resource).Namespace(ns)
	}
	return b.client.Resource(m.Resource)
}

// mapping finds a kind; one whose CRD has just come is waited for.
func (b *bed) mapping(t *testing.T, gvk schema.GroupVersionKind) *apimeta.RESTMapping {
	t.Helper()
	var m *apimeta.RESTMapping
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		var err error
		if m, err = b.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); apimeta.IsNoMatchError(err) {
			b.mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("find kind %s: %v", gvk, err)
	}
	return m
}

func (b *bed) namespace(t *testing.T, name string) {
	t.Helper()
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := b.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), ns, metav1.CreateOptions{FieldManager: "test"})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("make namespace %s: %v", name, err)
	}
}

func crds() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func (b *bed) established(t *testing.T, name string) {
	t.Helper()
	b.until(t, "CRD "+name+" is established", func(ctx context.Context) (bool, error) {
		u, err := b.client.Resource(crds()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
}

// until waits for something to become true, and ends the test if it does not.
func (b *bed) until(t *testing.T, what string, is func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, is); err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}

// get reads an object: "apiVersion", "Kind", "namespace" (empty for none), "name".
func (b *bed) get(t *testing.T, apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	m := b.mapping(t, schema.FromAPIVersionAndKind(apiVersion, kind))
	var c dynamic.ResourceInterface = b.client.Resource(m.Resource)
	if namespace != "" {
		c = b.client.Resource(m.Resource).Namespace(namespace)
	}
	u, err := c.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get %s %s/%s: %v", kind, namespace, name, err)
	}
	return u
}

// patch merges JSON into an object, or into its status if subresource is "status".
func (b *bed) patch(t *testing.T, u *unstructured.Unstructured, json string, subresource ...string) *unstructured.Unstructured {
	t.Helper()
	out, err := b.of(t, u).Patch(t.Context(), u.GetName(), types.MergePatchType, []byte(json), metav1.PatchOptions{FieldManager: "test"}, subresource...)
	if err != nil {
		t.Fatalf("patch %s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return out
}

// result is what a command said.
type result struct {
	stdout, stderr string
	code           problem.Exit
}

// capstan runs one command line in this process against the bed.
func (b *bed) capstan(t *testing.T, args ...string) result {
	t.Helper()
	return command(t.Context(), b.Kubeconfig, args...)
}

// writes lists what Capstan has written so far.
func (b *bed) writes(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, w := range b.Writes(t, "capstan/") {
		out = append(out, w.String())
	}
	return out
}

// refused checks that a command was refused before any change and says all the pieces.
func (b *bed) refused(t *testing.T, r result, pieces ...string) {
	t.Helper()
	want(t, r, problem.ExitBlocked, pieces...)
	if w := b.writes(t); len(w) > 0 {
		t.Errorf("Capstan wrote %d times although it refused:\n%s", len(w), strings.Join(w, "\n"))
	}
}

// want checks a command's exit code and that its output has the given pieces.
func want(t *testing.T, r result, code problem.Exit, pieces ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d", r.code, code)
	}
	for _, p := range pieces {
		if !strings.Contains(r.stdout+r.stderr, p) {
			t.Errorf("the output does not say %q", p)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

// lacks checks that a command's output does not say something.
func lacks(t *testing.T, r result, pieces ...string) {
	t.Helper()
	for _, p := range pieces {
		if strings.Contains(r.stdout+r.stderr, p) {
			t.Errorf("the output says %q\nstdout:\n%s\nstderr:\n%s", p, r.stdout, r.stderr)
		}
	}
}
