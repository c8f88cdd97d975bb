// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestC84_VeryManyCRDs plans and upgrades among 500 CRDs of others, with 40 CRDs that are new: of the others nothing is
// read but what carries a component's label, what is not there yet is not asked for again and again, and lists are paged.
func TestC84_VeryManyCRDs(t *testing.T) {
	t.Parallel()
	const others, ours = 500, 40
	b := newBed(t, apitest.Options{})
	for i := range others {
		crd := objects(t, plainCRD(fmt.Sprintf("other%d", i), "others.example.org"))[0]
		if _, err := b.client.Resource(crds()).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, "all CRDs are established", func(ctx context.Context) (bool, error) {
		list, err := b.client.Resource(crds()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		waiting := 0
		for i := range list.Items {
			if accepted, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "acceptedNames", "kind"); accepted == "" {
				waiting++
			}
		}
		return waiting == 0, nil
	})
	var manifests strings.Builder
	for i := range ours {
		manifests.WriteString("---\n" + plainCRD(fmt.Sprintf("our%d", i), "ours.example.org"))
	}
	release := writeRelease(t, "v1.0.0", "", part{name: "many", version: "v1.0.0", manifests: manifests.String()})

	want(t, b.capstan(t, "plan", release), problem.ExitDone, "many")
	asked := map[string]int{}
	for _, r := range b.Requests(t, "capstan/") {
		path, query, _ := strings.Cut(r.Path, "?")
		switch {
		case r.Verb == "list" && !strings.Contains(query, "limit=") && !strings.Contains(path, "capstan.dev"):
			t.Errorf("a list is not paged: %s", r.Path)
		case r.Verb == "list" && strings.Contains(path, "others.example.org") && !strings.Contains(query, "labelSelector="):
			t.Errorf("all objects of a kind that is no business of the release's are read: %s", r.Path)
		case r.Verb == "list" && strings.Contains(path, "others.example.org") && r.Code == http.StatusOK,
			r.Verb == "get" && r.Code == http.StatusNotFound && strings.Contains(path, "customresourcedefinitions/"):
			asked[path+" "+query]++
		}
	}
	for question, n := range asked {
		if n > 2 {
			t.Errorf("asked %d times: %s", n, question)
		}
	}
	want(t, b.capstan(t, "upgrade", release, "--yes", "--qps", "200", "--burst", "400"), problem.ExitDone)
	b.established(t, "our39s.ours.example.org")
}

func TestC84_LimitsAreChecked(t *testing.T) {
	t.Parallel()
	b := &bed{Server: &apitest.Server{Kubeconfig: "/dev/null"}}
	for name, args := range map[string][]string{
		"a limit below nothing":   {"--qps", "-1"},
		"a burst without a limit": {"--burst", "10"},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, b.capstan(t, append([]string{"status"}, args...)...), problem.ExitUsage, "make no sense", "--qps 50")
		})
	}
}

// plainCRD is a CRD of one version, without any conversion.
func plainCRD(singular, group string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]ss, singular: %[1]s}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, singular, group, strings.ToUpper(singular[:1])+singular[1:])
}

// TestC84_VeryManyMachines plans where one Cluster has more Machines than are decoded at a time: each kind of the fleet is
// listed once for the fleet and once for all checks together, Machines once for both, and all of them are counted.
func TestC84_VeryManyMachines(t *testing.T) {
	t.Parallel()
	const machines = 1200
	b := newFleetBed(t)
	b.apply(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: big, namespace: default}
spec:
  controlPlaneEndpoint: {host: 192.0.2.1, port: 6443}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: big}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: big}
`)
	b.createMachines(t, machines)
	release := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"})

	r := b.capstan(t, "plan", release)
	want(t, r, problem.ExitDone, fmt.Sprintf("1 cluster, %d Machines", machines))
	lists := map[string]int{}
	for _, r := range b.Requests(t, "capstan/") {
		path, _, _ := strings.Cut(r.Path, "?")
		if r.Verb == "list" && strings.HasPrefix(path, "/apis/cluster.x-k8s.io/") {
			lists[path[strings.LastIndex(path, "/")+1:]]++
		}
	}
	for kind, most := range map[string]int{"machines": 1, "clusters": 2, "machinedeployments": 2} {
		if lists[kind] < 1 || lists[kind] > most {
			t.Errorf("%s are listed %d times, want at most %d", kind, lists[kind], most)
		}
	}
}

// createMachines makes Machines of the Cluster big that are at rest, several at a time.
func (b *bed) createMachines(t *testing.T, n int) {
	t.Helper()
	client := b.client.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}).Namespace("default")
	var wg sync.WaitGroup
	next := make(chan int)
	failed := make(chan error, n)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				u := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
					"metadata": map[string]any{"name": fmt.Sprintf("big-%04d", i), "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "big"}},
					"spec": map[string]any{
						"clusterName": "big", "version": "v1.35.0", "bootstrap": map[string]any{"dataSecretName": "none"},
						"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": fmt.Sprintf("big-%04d", i)},
					},
				}}
				if _, err := client.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Fatal(err)
	}
}
