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
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/world"
	"github.com/capstan-dev/capstan/internal/world/live"
)

const fleetText = `apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp, namespace: fleet}
spec: {replicas: 1, version: v1.35.0, machineTemplate: {spec: {infrastructureRef: {kind: T, name: cp-template}}}, kubeadmConfigSpec: {x: y}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one, namespace: fleet}
spec: {paused: true, controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: cp}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one}}
spec:
  clusterName: one
  replicas: 2
  template: {spec: {version: v1.34.0, infrastructureRef: {name: md-template}, bootstrap: {configRef: {name: md-boot}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: md-abc, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one, cluster.x-k8s.io/deployment-name: md}}
spec: {clusterName: one, replicas: 2}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: alone, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one}}
spec: {clusterName: one, replicas: 1, template: {spec: {version: v1.33.0}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-cp, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one, cluster.x-k8s.io/control-plane: ''}}
spec: {clusterName: one, version: v1.35.0}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-md, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one, cluster.x-k8s.io/set-name: md-abc, cluster.x-k8s.io/deployment-name: md}}
spec: {clusterName: one, version: v1.34.0}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-alone, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one, cluster.x-k8s.io/set-name: alone}}
spec: {clusterName: one, version: v1.33.0}`

func (b *bench) fleet(t *testing.T) {
	b.namespace(t, "fleet")
	for _, kind := range []string{"Cluster", "Machine", "MachineDeployment", "MachineSet"} {
		b.create(t, "test", anything("cluster.x-k8s.io", kind, "Namespaced", "v1beta2 v1beta1"))
	}
	b.create(t, "test", anything("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "Namespaced", "v1beta2 v1beta1"))
	made := b.create(t, "test", fleetText)
	ref := func(kind, name string) world.Ref {
		return world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: kind, Namespace: "fleet", Name: name}
	}
	cp := ref("KubeadmControlPlane", "cp")
	cp.APIVersion = "controlplane.cluster.x-k8s.io/v1beta2"
	want := []world.Cluster{{
		Namespace: "fleet", Name: "one", Paused: true, Version: "v1.35.0",
		Owners: []world.Owner{
			{Ref: cp, Replicas: 1, Template: map[string]string{"spec.version": "v1.35.0", "spec.machineTemplate.spec.infrastructureRef.name": "cp-template"}},
			{Ref: ref("MachineDeployment", "md"), Replicas: 2, Template: map[string]string{
				"spec.template.spec.version": "v1.34.0", "spec.template.spec.infrastructureRef.name": "md-template", "spec.template.spec.bootstrap.configRef.name": "md-boot",
			}},
			{Ref: ref("MachineSet", "alone"), Replicas: 1, Template: map[string]string{"spec.template.spec.version": "v1.33.0"}},
		},
		Machines: []world.Machine{
			{Name: "m-alone", Owner: ref("MachineSet", "alone"), Version: "v1.33.0"},
			{Name: "m-cp", Owner: cp, Version: "v1.35.0"},
			{Name: "m-md", Owner: ref("MachineDeployment", "md"), Version: "v1.34.0"},
		},
	}}
	uids := cmpopts.IgnoreFields(world.Cluster{}, "UID", "SpecPaused", "ResourceVersion")
	ignore := []cmp.Option{uids, cmpopts.IgnoreFields(world.Owner{}, "UID", "Config", "Read", "Generation"), cmpopts.IgnoreFields(world.Machine{}, "UID")}
	first := b.observe(t)
	if diff := cmp.Diff(first.Clusters, want, ignore...); diff != "" {
		t.Errorf("first reading (-got +want):\n%s", diff)
	}
	if got := first.Management.ClusterAPIVersion; got != "cluster.x-k8s.io/v1beta2" {
		t.Errorf("Cluster API version is %q, want cluster.x-k8s.io/v1beta2", got)
	}
	if diff := cmp.Diff(b.observe(t).Clusters, want, ignore...); diff != "" {
		t.Errorf("second reading (-got +want):\n%s", diff)
	}

	// The fleet moves: a health check asks for a Machine's replacement, another one goes, a spec changes.
	machine, alone, control := made[6], made[7], made[5]
	b.patch(t, machine, `{"metadata":{"finalizers":["test.io/hold"]}}`)
	b.patch(t, machine, `{"status":{"conditions":[{"type":"OwnerRemediated","status":"False"}]}}`, "status")
	for _, gone := range []string{"m-md", "m-alone"} {
		if err := b.client(t, machine).Delete(t.Context(), gone, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.patch(t, control, `{"spec":{"version":"v1.35.1"}}`)
	want[0].Machines = []world.Machine{
		{Name: "m-cp", Owner: cp, Version: "v1.35.1"},
		{Name: "m-md", Owner: ref("MachineDeployment", "md"), Version: "v1.34.0", Deleting: true, Remediated: true},
	}
	got := b.observe(t).Clusters
	if diff := cmp.Diff(got, want, ignore...); diff != "" {
		t.Errorf("after changes (-got +want):\n%s", diff)
	}
	if uid := got[0].Machines[1].UID; uid != string(machine.GetUID()) || alone.GetUID() == machine.GetUID() {
		t.Errorf("UID is %s, want %s", uid, machine.GetUID())
	}
	b.patch(t, machine, `{"metadata":{"finalizers":null}}`)
	b.fleetInterval(t)
	b.fleetConversion(t, got)
}

func (b *bench) fleetInterval(t *testing.T) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	o, err := live.New(live.Options{Config: rest.CopyConfig(b.cfg), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	machines := func() int {
		t.Helper()
		w, err := o.Observe(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(w.Clusters[0].Machines)
	}
	before := machines()
	b.create(t, "test", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: late, namespace: fleet, labels: {cluster.x-k8s.io/cluster-name: one}}\nspec: {clusterName: one}")
	if got := machines(); got != before {
		t.Errorf("%d Machines at the same time, want the %d of the last reading", got, before)
	}
	clock.SetTime(clock.Now().Add(2 * time.Second))
	if got := machines(); got != before+1 {
		t.Errorf("%d Machines two seconds later, want %d", got, before+1)
	}
}

// fleetConversion makes v1beta1 the storage version under a conversion webhook that does not answer, as it is when the
// component that serves it is down.
func (b *bench) fleetConversion(t *testing.T, before []world.Cluster) {
	t.Helper()
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, storage)
	}
	crd := parse(t, anything("cluster.x-k8s.io", "Cluster", "Namespaced", "v1beta2"))
	b.patch(t, crd, fmt.Sprintf(`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:%d/convert"}}},"versions":[%s,%s]}}`,
		freePorts(t, 1)[0], version("v1beta2", false), version("v1beta1", true)))

	// What is stored in the version that is read needs no conversion.
	last := b.observe(t)
	if len(last.Clusters) != len(before) || last.FleetError != "" {
		t.Errorf("%d clusters, error %q; want %d and none", len(last.Clusters), last.FleetError, len(before))
	}

	// One in each version: no version can be read, so the last picture stays.
	two := b.createStored(t, "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: two, namespace: fleet}\nspec: {controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, name: cp}}")
	w := b.observe(t)
	if diff := cmp.Diff(w.Clusters, last.Clusters); diff != "" {
		t.Errorf("clusters without conversion (-got +want):\n%s", diff)
	}
	if !w.FleetAt.Equal(last.FleetAt) || !strings.Contains(w.FleetError, "conversion webhook") {
		t.Errorf("fleet as of %s, error %q; want as of %s with the webhook named", w.FleetAt, w.FleetError, last.FleetAt)
	}
	if _, err := b.newObserver(t).Observe(t.Context(), nil); !live.IsRetryable(err) {
		t.Errorf("a new observer: %v, want a retryable error, as it has no last picture", err)
	}

	// All in the version that is not the preferred one: it is read in that.
	b.deleteUnconverted(t, crd, parse(t, "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: one, namespace: fleet}"))
	w = b.observe(t)
	if len(w.Clusters) != 1 || w.FleetError != "" || w.Clusters[0].UID != string(two.GetUID()) {
		t.Fatalf("got %+v, error %q; want the one of v1beta1", w.Clusters, w.FleetError)
	}
	if got := w.Clusters[0].Owners[0].Ref; got.APIVersion != "controlplane.cluster.x-k8s.io/v1beta2" || got.Name != "cp" {
		t.Errorf("control plane is %+v, want it as before", got)
	}
	b.patch(t, crd, `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
}

// deleteUnconverted deletes an object while its kind's conversion is switched off, and leaves it switched on.
func (b *bench) deleteUnconverted(t *testing.T, crd, u *unstructured.Unstructured) {
	t.Helper()
	before, err := b.client(t, crd).Get(t.Context(), crd.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := unstructured.NestedString(before.Object, "spec", "conversion", "webhook", "clientConfig", "url")
	b.patch(t, crd, `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	client, last := b.client(t, u), error(nil)
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		last = client.Delete(ctx, u.GetName(), metav1.DeleteOptions{})
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("delete %s: %v", world.RefOf(u), last)
	}
	b.patch(t, crd, fmt.Sprintf(`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q}}}}}`, url))
}

// createStored makes an object once the API server has taken up a change of its CRD.
func (b *bench) createStored(t *testing.T, text string) (made *unstructured.Unstructured) {
	t.Helper()
	u := parse(t, text)
	client, last := b.client(t, u), error(nil)
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		made, last = client.Create(ctx, u, metav1.CreateOptions{})
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("create %s: %v", world.RefOf(u), last)
	}
	return made
}
