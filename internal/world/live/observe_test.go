// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/world"
	"github.com/capstan-dev/capstan/internal/world/live"
)

func TestObserve(t *testing.T) {
	b := newBench(t)
	t.Run("an empty management cluster has no clusters and no inventory", b.emptyCluster)
	t.Run("the management cluster is read with its records", b.management)
	t.Run("objects are compared by a dry run", b.comparison)
	t.Run("objects that are not there are dry-run too", b.missing)
	t.Run("the way of a Deployment is followed", b.deployment)
	t.Run("a Deployment is quiet when its last Pod is gone", b.quiet)
	t.Run("conditions tell the health of a CRD and a Certificate", b.conditions)
	t.Run("unchanged objects cost few requests", b.cost)
	t.Run("the fleet is read in any version", b.fleet)
	t.Run("an API server that is away is a retryable error", b.unavailable)
	t.Run("webhooks and conversions are called", b.probes)
	if n := b.requests.writes.Load(); n != 0 {
		t.Errorf("the observer made %d writes, want none", n)
	}
}

func (b *bench) emptyCluster(t *testing.T) {
	w := b.observe(t)
	if w.Management.UID == "" || w.Management.KubernetesVersion == "" {
		t.Errorf("UID and version are %q and %q, want both", w.Management.UID, w.Management.KubernetesVersion)
	}
	want := &world.World{Sets: map[string]world.Set{}}
	ignore := cmpopts.IgnoreFields(world.World{}, "At", "FleetAt", "Management.UID", "Management.KubernetesVersion")
	if diff := cmp.Diff(w, want, ignore); diff != "" {
		t.Errorf("world (-got +want):\n%s", diff)
	}
}

// anything is a CRD whose objects may have any fields.
func anything(group, kind, scope, versions string) string {
	plural := strings.ToLower(kind) + "s"
	text := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\n"+
		"spec:\n  group: %s\n  scope: %s\n  names: {kind: %s, plural: %s, singular: %s}\n  versions:\n", plural, group, group, scope, kind, plural, strings.ToLower(kind))
	for i, v := range strings.Fields(versions) {
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n", v, i == 0)
	}
	return strings.TrimSuffix(text, "\n")
}

func (b *bench) management(t *testing.T) {
	b.create(t, "test", `apiVersion: v1
kind: Node
metadata: {name: node-1}
status:
  allocatable: {memory: 4Gi, cpu: 1500m}
  conditions: [{type: Ready, status: 'True', reason: x, message: z}]
---
`+anything("clusterctl.cluster.x-k8s.io", "Provider", "Namespaced", "v1alpha3")+`
---
apiVersion: v1
kind: Namespace
metadata:
  name: cert-manager
  labels: {clusterctl.cluster.x-k8s.io/core: cert-manager}
  annotations: {cert-manager.clusterctl.cluster.x-k8s.io/version: v1.20.2}
---
apiVersion: v1
kind: Namespace
metadata:
  name: extra
  labels: {capstan.dev/component: extra}
  annotations: {capstan.dev/version: v0.3.0}
---
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata: {name: infrastructure-docker, namespace: extra}
providerName: docker
type: InfrastructureProvider
version: v1.13.4`)
	got := b.observe(t).Management
	want := world.Management{
		Nodes:     []world.Node{{Name: "node-1", Ready: true, AllocatableMemory: 4 << 30, AllocatableCPU: 1500}},
		Inventory: true,
		Providers: []world.Provider{{ManifestLabel: "infrastructure-docker", Name: "docker", Type: "InfrastructureProvider", Namespace: "extra", Version: "v1.13.4"}},
		Manifests: []world.Manifest{{Name: "cert-manager", Version: "v1.20.2", RecordedBy: "clusterctl"}, {Name: "extra", Version: "v0.3.0", RecordedBy: "capstan"}},
	}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(world.Management{}, "UID", "KubernetesVersion")); diff != "" {
		t.Errorf("management (-got +want):\n%s", diff)
	}
}

const deploymentText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: %s}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec: {containers: [{name: manager, image: "r.local/m:v1"}]}`

func deployment(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, fmt.Sprintf(deploymentText, namespace))
}

func (b *bench) comparison(t *testing.T) {
	b.namespace(t, "compare")
	u := deployment(t, "compare")
	b.create(t, "clusterctl", fmt.Sprintf(deploymentText, "compare"))

	got := b.one(t, world.Present, u)
	if !got.Found || got.InSync || got.Drift != "fields are still owned by clusterctl" {
		t.Errorf("as installed by clusterctl: found %t, in sync %t, drift %q", got.Found, got.InSync, got.Drift)
	}

	lean := u.DeepCopy()
	unstructured.RemoveNestedField(lean.Object, "metadata", "labels")
	b.patchAs(t, "clusterctl", u, `{"metadata":{"labels":{"old":"x"}}}`)
	if got = b.one(t, world.Present, lean); got.InSync || got.Drift != `metadata.labels: remove {"old":"x"}; fields are still owned by clusterctl` {
		t.Errorf("with a label of the old manifest: in sync %t, drift %q", got.InSync, got.Drift)
	}

	if err := b.client(t, u).Delete(t.Context(), u.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.apply(t, u)
	if got = b.one(t, world.Present, u); !got.InSync || got.Drift != "" || got.Refused != "" {
		t.Errorf("as applied: %+v, want in sync", got)
	}

	next := u.DeepCopy()
	set(t, next, "r.local/m:v2", "spec", "template", "spec", "containers")
	got = b.one(t, world.Present, next)
	if want := `spec.template.spec.containers[manager].image: "r.local/m:v1" to "r.local/m:v2"`; got.InSync || got.Drift != want {
		t.Errorf("at another image: in sync %t, drift %q, want %q", got.InSync, got.Drift, want)
	}

	b.patch(t, u, `{"metadata":{"labels":{"by":"somebody"}}}`)
	if got = b.one(t, world.Present, u); !got.InSync {
		t.Errorf("with a label that nobody asks for: drift %q, want in sync", got.Drift)
	}
	b.patch(t, u, `{"spec":{"replicas":3}}`)
	if got = b.one(t, world.Present, u); got.InSync || got.Drift != "spec.replicas: 3 to 1" {
		t.Errorf("scaled by somebody: in sync %t, drift %q", got.InSync, got.Drift)
	}

	fixed := u.DeepCopy()
	label(t, fixed, "other")
	if got = b.one(t, world.Present, fixed); !got.Immutable || got.InSync || got.Refused != "" || !strings.Contains(got.Drift, "spec.selector") {
		t.Errorf("with another selector: %+v, want immutable", got)
	}
	respecting := func(since time.Time) world.Object {
		t.Helper()
		b.patchAs(t, "kubectl-set", u, `{"spec":{"replicas":2}}`)
		w, err := b.observer.Respecting(since).Observe(t.Context(), []world.Want{{ID: "x", Objects: []world.Wanted{{Presence: world.Present, Object: u}}}})
		if err != nil {
			t.Fatal(err)
		}
		return w.Sets["x"].Objects[0]
	}
	if got = respecting(now().Add(-time.Hour)); !got.InSync {
		t.Errorf("repaired by hand after the run began: drift %q, want in sync", got.Drift)
	}
	if got = respecting(now().Add(time.Hour)); got.InSync || got.Drift != "spec.replicas: 2 to 1" {
		t.Errorf("changed by hand before the run began: in sync %t, drift %q", got.InSync, got.Drift)
	}
	if got = b.one(t, world.Present, u); got.InSync {
		t.Errorf("changed by hand, without respect: in sync, want drift")
	}

	bad := u.DeepCopy()
	set(t, bad, "", "spec", "template", "spec", "containers")
	if got = b.one(t, world.Present, bad); got.Immutable || got.InSync || !strings.Contains(got.Refused, "image: Required value") {
		t.Errorf("without an image: %+v, want refused", got)
	}
}

func set(t *testing.T, u *unstructured.Unstructured, image string, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "manager", "image": image}}, path...); err != nil {
		t.Fatal(err)
	}
}

func label(t *testing.T, u *unstructured.Unstructured, app string) {
	t.Helper()
	for _, path := range [][]string{{"spec", "selector", "matchLabels", "app"}, {"spec", "template", "metadata", "labels", "app"}} {
		if err := unstructured.SetNestedField(u.Object, app, path...); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) missing(t *testing.T) {
	b.namespace(t, "missing")
	tests := map[string]struct {
		presence world.Presence
		text     string
		want     world.Object
		refused  string
	}{
		"a good object":                  {presence: world.Present, text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: missing}"},
		"a bad object is refused before": {presence: world.Present, text: "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: missing}\nspec: {ports: [{port: 99999}]}", refused: "spec.ports[0].port"},
		"its namespace is not there yet": {presence: world.Present, text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}"},
		"its kind is not there yet":      {presence: world.Present, text: "apiVersion: nothing.io/v1\nkind: Nothing\nmetadata: {name: a}"},
		"an object that is to be absent": {presence: world.Absent, text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: missing}"},
		"a kind that is gone is absent":  {presence: world.Absent, text: "apiVersion: nothing.io/v1\nkind: Nothing\nmetadata: {name: a}"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := b.one(t, test.presence, parse(t, test.text))
			if got.Found || got.InSync || got.Immutable || (got.Refused != "") != (test.refused != "") || !strings.Contains(got.Refused, test.refused) {
				t.Errorf("got %+v, want not found, refused with %q", got, test.refused)
			}
		})
	}
	t.Run("an object that is being deleted is still there", func(t *testing.T) {
		u := b.create(t, "test", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, namespace: missing, finalizers: [test.io/hold]}")[0]
		if err := b.client(t, u).Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := b.one(t, world.Absent, u); !got.Found || !got.Terminating {
			t.Errorf("got %+v, want found and terminating", got)
		}
	})
}

// workloadParts makes a ReplicaSet and a Pod as the controllers would.
func (b *bench) workloadParts(t *testing.T, owner *unstructured.Unstructured, podStatus string) (pod *unstructured.Unstructured) {
	t.Helper()
	ns := owner.GetNamespace()
	rs := b.create(t, "kcm", fmt.Sprintf(`apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: manager-abc
  namespace: %s
  labels: {app: manager, pod-template-hash: abc}
  annotations: {deployment.kubernetes.io/revision: '1'}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: manager, uid: %s, controller: true}]
spec:
  replicas: 1
  selector: {matchLabels: {app: manager, pod-template-hash: abc}}
  template:
    metadata: {labels: {app: manager, pod-template-hash: abc}}
    spec: {containers: [{name: manager, image: "r.local/m:v1"}]}`, ns, owner.GetUID()))[0]
	return b.create(t, "kcm", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: manager-abc-1
  namespace: %s
  labels: {app: manager, pod-template-hash: abc}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: manager-abc, uid: %s, controller: true}]
spec: {nodeName: node-1, containers: [{name: manager, image: "r.local/m:v1"}]}
status: %s`, ns, rs.GetUID(), podStatus))[0]
}

func (b *bench) deployment(t *testing.T) {
	b.namespace(t, "roll")
	u := deployment(t, "roll")
	b.apply(t, u)
	health := func() world.Health {
		t.Helper()
		h := b.one(t, world.Present, u).Health
		if h == nil {
			t.Fatal("no health")
		}
		return *h
	}
	seen := health()
	if seen.OK || seen.Message != "Deployment roll/manager: its controller has yet to see the change" {
		t.Errorf("just applied: %+v", seen)
	}
	owner, err := b.client(t, u).Get(t.Context(), "manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.patch(t, u, `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}}}`)
	pod := b.workloadParts(t, owner, `{phase: Pending, containerStatuses: [{name: manager, image: x, imageID: '', ready: false, restartCount: 0, state: {waiting: {reason: ErrImagePull, message: 'not found'}}}]}`)
	b.patch(t, u, `{"status":{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"unavailableReplicas":1}}`, "status")
	got := health()
	if got.OK || got.Message != "Deployment roll/manager: 0 of 1 Pod available" || got.Progress == seen.Progress {
		t.Errorf("without the image: %+v, want waiting with progress other than %d", got, seen.Progress)
	}
	if len(got.Causes) != 1 || got.Causes[0].Reason != "ImageNotFound" || !got.Causes[0].Definite || !strings.Contains(got.Causes[0].Message, "r.local/m:v1") {
		t.Errorf("causes are %+v, want the missing image", got.Causes)
	}
	if again := health(); again.Progress != got.Progress {
		t.Errorf("progress changed from %d to %d although nothing moved", got.Progress, again.Progress)
	}
	b.patch(t, pod, `{"status":{"phase":"Running","containerStatuses":[{"name":"manager","image":"x","imageID":"","ready":true,"restartCount":0,"state":{"running":{}}}]}}`, "status")
	b.patch(t, u, `{"status":{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":0}}`, "status")
	if got = health(); !got.OK || got.Message != "" || got.Causes != nil {
		t.Errorf("when available: %+v, want OK", got)
	}
	started := now().UTC().Format(time.RFC3339)
	b.patch(t, pod, `{"status":{"containerStatuses":[{"name":"manager","image":"x","imageID":"","ready":true,"restartCount":1,"state":{"running":{"startedAt":"`+started+`"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}}]}}`, "status")
	if got = health(); got.OK || !strings.Contains(got.Message, "restarted a moment ago") {
		t.Errorf("ready between two crashes: %+v, want not OK", got)
	}
}

func (b *bench) quiet(t *testing.T) {
	b.namespace(t, "quiet")
	u := deployment(t, "quiet")
	if got := b.one(t, world.Quiet, u); got.Found {
		t.Errorf("an absent Deployment: %+v, want quiet", got)
	}
	b.apply(t, u)
	owner, err := b.client(t, u).Get(t.Context(), "manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := b.workloadParts(t, owner, "{phase: Running}")
	if got := b.one(t, world.Quiet, u); !got.Found || got.InSync {
		t.Errorf("not scaled down: %+v, want found and not in sync", got)
	}
	b.patch(t, u, `{"spec":{"replicas":0}}`)
	b.patch(t, u, `{"status":{"observedGeneration":2}}`, "status")
	got := b.one(t, world.Quiet, u)
	if !got.Found || !got.InSync || got.Health.Message != "Deployment quiet/manager still has 1 Pod" {
		t.Errorf("scaled down with a Pod left: %+v %+v", got, got.Health)
	}
	background := metav1.DeletePropagationBackground
	if err := b.client(t, u).Delete(t.Context(), "manager", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	if got = b.one(t, world.Quiet, u); !got.Found {
		t.Errorf("deleted with a Pod left: %+v, want found", got)
	}
	atOnce := int64(0)
	if err := b.client(t, pod).Delete(t.Context(), pod.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &atOnce}); err != nil {
		t.Fatal(err)
	}
	if got = b.one(t, world.Quiet, u); got.Found {
		t.Errorf("without Pods: %+v, want quiet", got)
	}
}

func (b *bench) conditions(t *testing.T) {
	crd := b.create(t, "test", anything("cert-manager.io", "Certificate", "Namespaced", "v1"))[0]
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		h := b.one(t, world.Present, crdWanted(t)).Health //nolint:contextcheck // it uses the test's
		return h != nil && h.OK, nil
	})
	if err != nil {
		t.Fatalf("CRD %s does not become healthy: %v", crd.GetName(), err)
	}
	b.namespace(t, "certs")
	u := b.create(t, "capstan", "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: serving, namespace: certs}\nspec: {secretName: serving}")[0]
	wanted := parse(t, "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: serving, namespace: certs}\nspec: {secretName: serving}")
	if h := b.one(t, world.Present, wanted).Health; h == nil || h.OK || h.Message != "Certificate certs/serving is not Ready: nothing is reported yet" {
		t.Errorf("new: %+v", h)
	}
	b.patch(t, u, `{"status":{"conditions":[{"type":"Ready","status":"False","message":"issuer is missing"}]}}`, "status")
	h := b.one(t, world.Present, wanted).Health
	if h == nil || h.OK || len(h.Causes) != 1 || h.Causes[0].Message != "Certificate certs/serving is not Ready: issuer is missing" {
		t.Errorf("not ready: %+v", h)
	}
	b.patch(t, u, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	if h = b.one(t, world.Present, wanted).Health; h == nil || !h.OK {
		t.Errorf("ready: %+v", h)
	}
}

func crdWanted(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return parse(t, anything("cert-manager.io", "Certificate", "Namespaced", "v1"))
}

func (b *bench) cost(t *testing.T) {
	b.namespace(t, "cost")
	var want world.Want
	add := func(text string) {
		u := parse(t, text)
		b.apply(t, u)
		want.Objects = append(want.Objects, world.Wanted{Presence: world.Present, Object: u})
	}
	for i := range 100 {
		add(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: cost}\ndata: {a: '1'}", i))
	}
	for i := range 30 {
		add(fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: cost%d}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]", i))
	}
	for i := range 20 {
		add(anything("cost.io", fmt.Sprintf("Cost%d", i), "Namespaced", "v1"))
	}
	want.ID = "cost"
	measure := func(name string) int64 {
		before, began := b.requests.all.Load(), now()
		w := b.observe(t, want)
		n := b.requests.all.Load() - before
		t.Logf("%s: %d objects, %d requests, %s", name, len(want.Objects), n, clock.RealClock{}.Since(began).Round(time.Millisecond))
		for _, o := range w.Sets["cost"].Objects {
			if !o.InSync {
				t.Errorf("%s is not in sync: %s%s", o.Ref, o.Drift, o.Refused)
			}
		}
		return n
	}
	first := measure("first")
	second := measure("unchanged")
	if first < 300 || second > 25 {
		t.Errorf("%d requests the first time and %d the second, want at least 300 (a read and a dry run each) and at most 25", first, second)
	}
	b.patch(t, want.Objects[7].Object, `{"data":{"a":"2"}}`)
	w := b.observe(t, want)
	if o := w.Sets["cost"].Objects[7]; o.InSync || o.Drift != `data.a: "2" to "1"` {
		t.Errorf("changed object: in sync %t, drift %q", o.InSync, o.Drift)
	}
}

func (b *bench) unavailable(t *testing.T) {
	cfg := rest.CopyConfig(b.cfg)
	cfg.Host = fmt.Sprintf("https://127.0.0.1:%d", freePorts(t, 1)[0])
	o, err := live.New(live.Options{Config: cfg, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = o.Observe(t.Context(), nil); !live.IsRetryable(err) {
		t.Errorf("no API server: %v, want a retryable error", err)
	}
	cfg = rest.CopyConfig(b.cfg)
	cfg.BearerToken = "limited-token"
	if o, err = live.New(live.Options{Config: cfg, Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	if _, err = o.Observe(t.Context(), nil); err == nil || live.IsRetryable(err) {
		t.Errorf("no rights: %v, want an error that is not retryable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = b.observer.Observe(ctx, nil); err == nil || live.IsRetryable(err) {
		t.Errorf("cancelled: %v, want an error that is not retryable", err)
	}
}
