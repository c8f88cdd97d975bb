// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/scenarios/bed"
)

// stage is a provider with the namespace of its controllers.
type stage struct{ component, namespace string }

// stages are the sandbox's providers in Cluster API's order.
func stages() []stage {
	return []stage{
		{"cluster-api", "capi-system"},
		{"bootstrap-kubeadm", bootstrapNamespace},
		{"control-plane-kubeadm", "capi-kubeadm-control-plane-system"},
		{"infrastructure-docker", "capd-system"},
	}
}

// audited is a line of `sandbox audit -o json`.
type audited struct {
	Time                            time.Time
	Verb, Resource, Namespace, Name string
}

// providerOrder checks that controllers were written core first, then bootstrap, control plane and infrastructure, each once
// the stage before was healthy; and that nothing was deleted which a second run would miss.
func providerOrder(t *testing.T, b *bed.Bed, since time.Time) {
	t.Helper()
	first := map[string]time.Time{}
	r := b.Must(t, b.Sandbox(t.Context(), "audit", "--agent", "capstan/", "--since", since.UTC().Format(time.RFC3339Nano), "-o", "json"))
	for line := range strings.Lines(r.Stdout) {
		var w audited
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			t.Fatalf("decode %q: %v", line, err)
		}
		switch {
		case strings.HasPrefix(w.Verb, "delete") && slices.Contains([]string{"namespaces", "providers", "customresourcedefinitions"}, w.Resource):
			t.Errorf("Capstan deleted %s %s/%s", w.Resource, w.Namespace, w.Name)
		case w.Resource == "deployments" && first[w.Namespace].IsZero():
			first[w.Namespace] = w.Time
		}
	}
	healthy := healthyAt(t, b)
	for i, s := range stages() {
		if first[s.namespace].IsZero() {
			t.Errorf("no Deployment in %s was written", s.namespace)
			continue
		}
		if i == 0 {
			continue
		}
		before := stages()[i-1]
		if at := healthy[before.component]; at.IsZero() || first[s.namespace].Before(at) {
			t.Errorf("the Deployment of %s was written at %s, before %s was healthy at %s", s.component, first[s.namespace], before.component, at)
		}
	}
}

// healthyAt tells when each component of the newest run was seen rolled out, with its webhooks answering; in whole seconds.
func healthyAt(t *testing.T, b *bed.Bed) map[string]time.Time {
	t.Helper()
	list, err := b.Cluster(t).Resource(schema.GroupVersionResource{Group: "capstan.dev", Version: "v1alpha1", Resource: "upgrades"}).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d runs, want one: %v", len(list.Items), err)
	}
	var run v1alpha1.Upgrade
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, &run); err != nil {
		t.Fatal(err)
	}
	out := map[string]time.Time{}
	for _, s := range run.Status.Steps {
		kind, rest, _ := strings.Cut(s.ID, "/")
		component, _, _ := strings.Cut(rest, "/")
		if (kind == "swap" || kind == "webhooks") && s.FinishedAt != nil && s.FinishedAt.After(out[component]) {
			out[component] = s.FinishedAt.Time
		}
	}
	return out
}
