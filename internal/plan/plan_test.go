// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// fixture is a release of one provider and the cluster that it meets, where everything differs from the release.
type fixture struct {
	component v1alpha1.Component
	objects   []*unstructured.Unstructured
	world     *world.World
	past      []v1alpha1.Upgrade
}

func object(kind, name string, body map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	maps.Copy(u.Object, body)
	u.SetName(name)
	return u
}

func deployment(args ...any) *unstructured.Unstructured {
	return object("Deployment", "manager", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "manager", "args": args}},
	}}}})
}

// crd has the named versions; the first is the storage version.
func crd(versions ...string) *unstructured.Unstructured {
	var list []any
	for i, v := range versions {
		list = append(list, map[string]any{"name": v, "served": true, "storage": i == 0})
	}
	return object("CustomResourceDefinition", "things.x", map[string]any{
		"spec":   map[string]any{"versions": list, "conversion": map[string]any{"strategy": "Webhook"}},
		"status": map[string]any{"storedVersions": []any{versions[0]}},
	})
}

// meet adds an object of the release and what is there in its place; nil is nothing.
func (f *fixture) meet(wanted, live *unstructured.Unstructured, change func(*world.Object)) {
	o := world.Object{Ref: world.RefOf(wanted), Presence: world.Present, Found: live != nil, Live: live, Drift: "spec"}
	if change != nil {
		change(&o)
	}
	f.objects = append(f.objects, wanted)
	set := f.world.Sets["plan/core"]
	set.Objects = append(set.Objects, o)
	f.world.Sets["plan/core"] = set
}

func newFixture() *fixture {
	return &fixture{
		component: v1alpha1.Component{
			Name: "core", Type: v1alpha1.ComponentProvider, Version: "v1.14.2",
			Provider: &v1alpha1.ProviderIdentity{Name: "cluster-api", Type: "CoreProvider", Namespace: "capi-system"},
		},
		world: &world.World{
			Management: world.Management{
				UID: "u", KubernetesVersion: "v1.36.3", Inventory: true, Nodes: []world.Node{{Name: "n", Ready: true}},
				Providers: []world.Provider{{ManifestLabel: "cluster-api", Name: "cluster-api", Type: "CoreProvider", Namespace: "capi-system", Version: "v1.13.4"}},
			},
			Sets:   map[string]world.Set{},
			Survey: surveyed(),
		},
	}
}

// surveyed is a survey that looked into everything and found nothing.
func surveyed() *world.Survey {
	s := &world.Survey{Looked: map[world.Topic]string{}}
	for _, f := range reflect.ValueOf(s).Elem().Fields() {
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	for _, topic := range check.Topics(check.All()) {
		s.Looked[topic] = ""
	}
	return s
}

// stored adds what a survey found for a CRD.
func (f *fixture) stored(k world.StoredKind, next, live *unstructured.Unstructured) {
	var errNext, errLive error
	if k.Next, errNext = storage.Read(next); errNext != nil {
		panic(errNext)
	}
	if k.Live, errLive = storage.Read(live); errLive != nil {
		panic(errLive)
	}
	f.world.Survey.Stored.Kinds = append(f.world.Survey.Stored.Kinds, k)
}

func (f *fixture) compute(t *testing.T) *v1alpha1.PlanSpec {
	t.Helper()
	spec, err := plan.Compute(plan.Input{World: f.world, Past: f.past, Bundle: &release.Bundle{
		Release: &v1alpha1.Release{
			ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec:       v1alpha1.ReleaseSpec{Version: "v2.0.0", Components: []v1alpha1.Component{f.component}},
		},
		Components: []*release.Rendered{{Component: f.component, Objects: f.objects, Digest: "sha256:x"}},
		Digest:     "sha256:y",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func steps(spec *v1alpha1.PlanSpec) []string {
	var out []string
	for _, s := range spec.Steps {
		out = append(out, s.ID)
	}
	return out
}

func hazards(spec *v1alpha1.PlanSpec) []string {
	var out []string
	for _, h := range spec.Components[0].Hazards {
		out = append(out, h.ID)
	}
	return out
}

func TestCompute(t *testing.T) {
	t.Parallel()
	elected := deployment("--leader-elect")
	inSync := func(o *world.Object) { o.InSync = true }
	for name, tc := range map[string]struct {
		given        func(f *fixture)
		wantAction   v1alpha1.Action
		wantStrategy v1alpha1.Strategy
		wantHazards  []string
		wantSteps    []string
		wantFindings []string
	}{
		"an older version is upgraded": {
			given:      func(f *fixture) { f.meet(elected, elected, nil) },
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a provider that is not there is installed": {
			given: func(f *fixture) {
				f.world.Management.Providers = nil
				f.meet(deployment(), nil, nil)
			},
			wantAction: v1alpha1.ActionInstall, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a provider at the target is left alone": {
			given: func(f *fixture) {
				f.world.Management.Providers[0].Version = "v1.14.2"
				f.meet(elected, elected, inSync)
			},
			wantAction: v1alpha1.ActionNone, wantStrategy: v1alpha1.StrategyRolling,
		},
		"labels and ownership alone are no reason to touch a provider at the target": {
			given: func(f *fixture) {
				f.world.Management.Providers[0].Version = "v1.14.2"
				f.meet(elected, elected, func(o *world.Object) { o.Cosmetic = true })
			},
			wantAction: v1alpha1.ActionNone, wantStrategy: v1alpha1.StrategyRolling,
		},
		"a recorded version whose objects are not there is not believed": {
			given: func(f *fixture) {
				f.world.Management.Providers[0].Version = "v1.14.2"
				f.meet(elected, nil, nil)
			},
			wantAction: v1alpha1.ActionRepair, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"}, wantFindings: []string{"Warn CAP-HAND-CHANGES"},
		},
		"a downgrade is refused": {
			given: func(f *fixture) {
				f.world.Management.Providers[0].Version = "v1.15.0"
				f.meet(elected, elected, nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"}, wantFindings: []string{"Block CAP-DOWNGRADE"},
		},
		"a controller without leader election is stopped before the new one starts": {
			given:      func(f *fixture) { f.meet(elected, deployment("--leader-elect=false"), nil) },
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyStopThenStart, wantHazards: []string{plan.HazardTwoActive},
			wantSteps: []string{"stop/core/v1.14.2", "swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a changed lease means two active controllers": {
			given: func(f *fixture) {
				f.meet(deployment("--leader-elect", "--leader-election-id=b"), deployment("--leader-elect", "--leader-election-id=a"), nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyStopThenStart, wantHazards: []string{plan.HazardTwoActive},
			wantSteps: []string{"stop/core/v1.14.2", "swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a Deployment that asks to be recreated has its gap shown": {
			given: func(f *fixture) {
				wanted := deployment("--leader-elect")
				if err := unstructured.SetNestedField(wanted.Object, "Recreate", "spec", "strategy", "type"); err != nil {
					panic(err)
				}
				f.meet(wanted, elected, nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyStopThenStart, wantHazards: []string{plan.HazardRecreate},
			wantSteps: []string{"stop/core/v1.14.2", "swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a plain manifest without leader election is a server and rolls": {
			given: func(f *fixture) {
				f.component.Type, f.component.Provider = v1alpha1.ComponentManifest, nil
				f.world.Management.Manifests = []world.Manifest{{Name: "core", Version: "v1.13.0"}}
				f.meet(deployment("--port=1"), deployment("--port=2"), nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling, wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2"},
			wantFindings: []string{"Warn CAP-PROVIDER-NOT-IN-RELEASE"},
		},
		"a storage version that moves is held back until the new webhook answers": {
			given:      func(f *fixture) { f.meet(crd("v2", "v1"), crd("v1"), nil) },
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling, wantHazards: []string{plan.HazardOldWebhook},
			wantSteps: []string{"crds/core/v1.14.2", "webhooks/core/v1.14.2", "storage/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a CA from elsewhere is held back until the new Pods answer": {
			given: func(f *fixture) {
				wanted, live := crd("v1"), crd("v1")
				live.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "ns/old"})
				wanted.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "ns/new"})
				f.meet(wanted, live, nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling, wantHazards: []string{plan.HazardCA},
			wantSteps: []string{"crds/core/v1.14.2", "webhooks/core/v1.14.2", "storage/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a stored version that vanishes without one that stays blocks": {
			given: func(f *fixture) {
				f.meet(crd("v2"), crd("v1"), nil)
				f.stored(world.StoredKind{Objects: 3, ReadAt: "v1"}, crd("v2"), crd("v1"))
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling, wantHazards: []string{plan.HazardOldWebhook},
			wantSteps:    []string{"crds/core/v1.14.2", "webhooks/core/v1.14.2", "record/core/v1.14.2"},
			wantFindings: []string{"Block CAP-CRD-STORED-VERSION", "Unknown CAP-CRD-SCHEMA"},
		},
		"a Service that can't be changed in place is replaced": {
			given: func(f *fixture) {
				f.meet(object("Service", "s", nil), object("Service", "s", nil), func(o *world.Object) { o.Immutable = true })
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling, wantHazards: []string{plan.HazardImmutable},
			wantSteps: []string{"swap/core/v1.14.2", "record/core/v1.14.2"},
		},
		"a Deployment that can't be changed in place is stopped first": {
			given: func(f *fixture) {
				f.meet(elected, elected, func(o *world.Object) { o.Immutable = true })
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyStopThenStart, wantHazards: []string{plan.HazardImmutable},
			wantSteps: []string{"stop/core/v1.14.2", "swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"},
		},
		"what the new version no longer has is pruned, but never a CRD": {
			given: func(f *fixture) {
				f.meet(elected, elected, nil)
				set := f.world.Sets["plan/core"]
				set.Leftovers = []world.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "old"}, {APIVersion: "x/v1", Kind: "CustomResourceDefinition", Name: "old.x"}}
				f.world.Sets["plan/core"] = set
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling, wantHazards: []string{plan.HazardOldController},
			wantSteps: []string{"swap/core/v1.14.2", "prune/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"}, wantFindings: []string{"Warn CAP-CRD-LEFT"},
		},
		"an object that the API server refuses blocks": {
			given:      func(f *fixture) { f.meet(elected, elected, func(o *world.Object) { o.Refused = "quota" }) },
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"}, wantFindings: []string{"Block CAP-OBJECT-REFUSED"},
		},
		"a jump of four minors blocks": {
			given: func(f *fixture) {
				f.world.Management.Providers[0].Version = "v1.10.0"
				f.meet(elected, elected, nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"}, wantFindings: []string{"Block CAP-SKIPPED-MINORS"},
		},
		"a management cluster without a ready node blocks": {
			given: func(f *fixture) {
				f.world.Management.Nodes[0].Ready = false
				f.meet(elected, elected, nil)
			},
			wantAction: v1alpha1.ActionUpgrade, wantStrategy: v1alpha1.StrategyRolling,
			wantSteps: []string{"swap/core/v1.14.2", "lead/core/v1.14.2", "record/core/v1.14.2"}, wantFindings: []string{"Block CAP-NODE-READY"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture()
			tc.given(f)
			spec := f.compute(t)
			c := spec.Components[0]
			if c.Action != tc.wantAction || c.Strategy != tc.wantStrategy {
				t.Errorf("%s %s, want %s %s", c.Action, c.Strategy, tc.wantAction, tc.wantStrategy)
			}
			if diff := cmp.Diff(tc.wantHazards, hazards(spec)); diff != "" {
				t.Errorf("hazards, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantSteps, steps(spec)); diff != "" {
				t.Errorf("steps, -want +got:\n%s", diff)
			}
			var findings []string
			for _, f := range spec.Findings {
				findings = append(findings, string(f.Verdict)+" "+f.ID)
			}
			if diff := cmp.Diff(tc.wantFindings, findings); diff != "" {
				t.Errorf("findings, -want +got:\n%s", diff)
			}
		})
	}
}

func TestDigestIsStableAndCoversThePlan(t *testing.T) {
	t.Parallel()
	same := func() *v1alpha1.PlanSpec {
		f := newFixture()
		f.meet(crd("v2", "v1"), crd("v1"), nil)
		return f.compute(t)
	}
	a, b := same(), same()
	if a.Digest != b.Digest || a.Digest == "" {
		t.Errorf("digests are %q and %q, want equal ones", a.Digest, b.Digest)
	}
	if a.PointOfNoReturn != "storage/core/v1.14.2" {
		t.Errorf("point of no return is %q, want the step that moves the storage version", a.PointOfNoReturn)
	}
	f := newFixture()
	f.meet(crd("v2", "v1"), crd("v1"), nil)
	f.world.Management.KubernetesVersion = "v1.36.4"
	if other := f.compute(t); other.Digest == a.Digest {
		t.Error("the digest does not cover the Kubernetes version")
	}
}

func TestForecastUsesHistory(t *testing.T) {
	t.Parallel()
	start := metav1.NewTime(time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC))
	end := metav1.NewTime(start.Add(40 * time.Second))
	f := newFixture()
	f.meet(deployment("--leader-elect"), deployment("--leader-elect"), nil)
	f.past = []v1alpha1.Upgrade{{
		ObjectMeta: metav1.ObjectMeta{Name: "before"}, Spec: v1alpha1.UpgradeSpec{To: "v1.9.0"},
		Status: v1alpha1.UpgradeStatus{
			StartedAt: &start, FinishedAt: &end, Steps: make([]v1alpha1.StepRecord, 4),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted}},
		},
	}}
	spec := f.compute(t)
	want := v1alpha1.Forecast{Duration: metav1.Duration{Duration: 30 * time.Second}, Basis: "history: run before took 40s for 4 steps"}
	if diff := cmp.Diff(want, spec.Forecast); diff != "" {
		t.Errorf("forecast, -want +got:\n%s", diff)
	}
	if spec.Base.PlatformVersion != "v1.9.0" {
		t.Errorf("platform version is %q, want the one last completed", spec.Base.PlatformVersion)
	}
}
