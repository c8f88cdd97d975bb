// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/engine"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/testbed"
	"github.com/capstan-dev/capstan/internal/world"
)

// scenario is a management cluster with three components about to move, and the fleet behind it.
type scenario struct {
	cluster *testbed.Cluster
	work    *engine.Work
	log     []string
}

const runName = "run-1"

var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// newScenario covers every kind of step: core rolls with a CRD in two phases and objects to prune, the bootstrap
// provider is stopped before it starts, and the infrastructure provider has an object that has to be replaced.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	components := []v1alpha1.PlannedComponent{
		{
			Name: "core", Type: v1alpha1.ComponentProvider, From: "v1", To: "v2", Action: v1alpha1.ActionUpgrade, Strategy: v1alpha1.StrategyRolling,
			Provider: &v1alpha1.ProviderIdentity{Name: "cluster-api", Type: "CoreProvider", Namespace: "capi-system"},
			TwoPhase: []v1alpha1.TwoPhaseCRD{{Name: "things", Storage: "v1"}},
			Prune:    []v1alpha1.ObjectReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "core", Name: "old"}},
		},
		{
			Name: "bootstrap", Type: v1alpha1.ComponentProvider, From: "v1", To: "v2", Action: v1alpha1.ActionUpgrade, Needs: []string{"core"},
			Provider: &v1alpha1.ProviderIdentity{Name: "kubeadm", Type: "BootstrapProvider", Namespace: "bootstrap"},
			Strategy: v1alpha1.StrategyStopThenStart,
		},
		{
			Name: "infra", Type: v1alpha1.ComponentProvider, From: "v1", To: "v2", Action: v1alpha1.ActionUpgrade, Needs: []string{"core"},
			Provider: &v1alpha1.ProviderIdentity{Name: "docker", Type: "InfrastructureProvider", Namespace: "infra"},
			Strategy: v1alpha1.StrategyRolling,
			Replace:  []v1alpha1.ObjectReference{{APIVersion: "v1", Kind: "Service", Namespace: "infra", Name: "infra-svc"}},
			Migrate: []v1alpha1.Migration{{
				Resource: infraStore, Group: "infra.example.com", Kind: "Thing", Storage: "v1", Drop: []string{"v0"}, Versions: []string{"v1", "v2"},
				Owners: []v1alpha1.OwnerVersion{{Group: "core.example.com", Kind: "Parent", Version: "v1", Served: []string{"v1"}}}, Objects: 8,
			}},
		},
	}
	objects := platform.Objects{"core": manifests("core", "v2"), "bootstrap": manifests("bootstrap", "v2"), "infra": manifests("infra", "v2")}
	steps, err := platform.Build(components, objects)
	if err != nil {
		t.Fatal(err)
	}
	c := testbed.New(start)
	for _, name := range []string{"core", "bootstrap", "infra"} {
		c.Have(manifests(name, "v1")...)
	}
	c.Have(thing("v1", "ConfigMap", "core", "old", map[string]any{"data": "x"}))
	c.Frozen["Service/infra-svc"] = true
	c.Stores[infraStore] = store()
	c.Fleet = fleet()
	c.Start(&v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Name: runName},
		Spec:       v1alpha1.UpgradeSpec{Plan: "p", To: "v2", Intent: v1alpha1.IntentRun, StallLimit: metav1.Duration{Duration: time.Minute}},
	})
	return &scenario{cluster: c, work: &engine.Work{Steps: steps, Baseline: fence.Baseline{Clusters: fleet()}}}
}

const infraStore = "infra-things.infra.example.com"

// store holds objects of a kind whose storage version goes: some were never written since it is what it is, some were
// written in it, and two have parts at it.
func store() *testbed.Store {
	s := &testbed.Store{Versions: []string{"v0", "v1"}, Storage: "v0", StoredVersions: []string{"v0", "v1"}}
	for i := range 8 {
		s.Objects = append(s.Objects, &testbed.Stored{Name: fmt.Sprint("infra-thing-", i), In: []string{"v0", "v1"}[i%2]})
	}
	s.Objects[2].Fields = []metav1.ManagedFieldsEntry{{Manager: "gitops", Operation: "Apply", APIVersion: "infra.example.com/v0"}}
	s.Objects[5].Owners = []metav1.OwnerReference{{APIVersion: "core.example.com/v0", Kind: "Parent", Name: "p", UID: "1"}}
	return s
}

func thing(apiVersion, kind, ns, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
	u.SetNamespace(ns)
	u.SetName(name)
	return u
}

// manifests returns the objects of a component at a version.
func manifests(name, version string) []*unstructured.Unstructured {
	stored := func(v string) any {
		return map[string]any{"name": v, "served": true, "storage": v == version}
	}
	versions := []any{stored("v1")}
	if version == "v2" {
		versions = append(versions, stored("v2"))
	}
	objs := []*unstructured.Unstructured{
		thing("v1", "Service", name, name+"-svc", map[string]any{"port": version}),
		thing("apps/v1", "Deployment", name, name+"-controller", map[string]any{"image": version}),
		thing("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", name, map[string]any{"path": version}),
	}
	if name == "core" {
		objs = append(objs, thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things", map[string]any{
			"versions": versions, "conversion": map[string]any{"strategy": "Webhook"},
		}))
	}
	return objs
}

func fleet() []world.Cluster {
	cp := world.Ref{APIVersion: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Namespace: "default", Name: "fleet-1"}
	c := world.Cluster{Namespace: "default", Name: "fleet-1", UID: "c1", Owners: []world.Owner{{
		Ref: cp, UID: "o1", Replicas: 3, Template: map[string]string{"spec.version": "v1.36.0"},
	}}}
	for i := range 3 {
		c.Machines = append(c.Machines, world.Machine{Name: fmt.Sprintf("m-%d", i), UID: fmt.Sprintf("u-%d", i), Owner: cp})
	}
	return []world.Cluster{c}
}

// engine returns the engine of a new process.
func (s *scenario) engine(identity string) *engine.Engine {
	p := s.cluster.Process()
	return &engine.Engine{
		Observer: p, Actuator: p, Runs: p, Lock: p, Clock: s.cluster.Clock, Identity: identity,
		Work:   func(context.Context, *v1alpha1.Upgrade) (*engine.Work, error) { return s.work, nil },
		Events: func(e event.Event) { s.log = append(s.log, line(e)) },
	}
}

// follow ticks until the run ends, stops or its process dies. Time passes between ticks as the outcome asks for.
func (s *scenario) follow(t *testing.T, e *engine.Engine) (engine.Outcome, error) {
	t.Helper()
	const most = 500
	for range most {
		out, err := e.Tick(t.Context(), runName)
		if errors.Is(err, testbed.ErrCrash) || err == nil && (out.Ended || out.Stopped) {
			return out, err
		}
		if err != nil {
			t.Fatalf("tick: %v", err)
		}
		s.cluster.Clock.Step(out.After)
	}
	t.Fatalf("the run did not end within %d ticks; so far:\n%s", most, strings.Join(s.log, "\n"))
	return engine.Outcome{}, nil
}

func line(e event.Event) string {
	switch e := e.(type) {
	case event.StepStarted:
		return "start " + e.Step
	case event.StepDone:
		return fmt.Sprintf("done  %s (%d/%d, %s)", e.Step, e.Index, e.Total, e.Took)
	case event.Waiting:
		return fmt.Sprintf("wait  %s: %s%s", e.Step, e.Detail, reasons(e.Causes))
	case event.TookOver:
		return "took over from " + e.From
	case event.Stopped:
		return "stop  " + e.Stops[0].Reason + ": " + e.Stops[0].Message
	case event.Ended:
		return "end   " + e.Reason
	default:
		return fmt.Sprintf("%T", e)
	}
}

func reasons(ws []v1alpha1.Waiting) string {
	var b strings.Builder
	for _, w := range ws {
		b.WriteString(" [" + w.Reason + "]")
	}
	return b.String()
}
