// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// fakeCluster stands in for an API server that gives UIDs, takes no status with a creation, and serves CRDs at once.
func fakeCluster(size Size, objects ...runtime.Object) *fake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{leases(): "LeaseList", pods(): "PodList"}
	for _, r := range append(fleetResources(true), crds(), namespaceItems()[0].resource) {
		kinds[r.gvr] = r.kind + "List"
	}
	for i := range size.CRDs {
		kinds[extraCRD(i).resource().gvr] = extraCRD(i).kind() + "List"
	}
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	c.PrependReactor("create", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(ktesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		u, ok := create.GetObject().(*unstructured.Unstructured)
		if !ok {
			return false, nil, errors.New("not unstructured")
		}
		u.SetUID(types.UID("uid of " + u.GetName()))
		if u.GetKind() == "CustomResourceDefinition" {
			u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
		}
		return false, nil, nil
	})
	return c
}

// writes counts the writes since the last call.
func writes(c *fake.FakeDynamicClient) map[string]int {
	out := map[string]int{}
	for _, a := range c.Actions() {
		if a.GetVerb() != "list" && a.GetVerb() != "get" {
			out[strings.Trim(a.GetVerb()+" "+a.GetResource().Resource+" "+a.GetSubresource(), " ")]++
		}
	}
	c.ClearActions()
	return out
}

func loadAll(ctx context.Context, t *testing.T, c *fake.FakeDynamicClient, size Size) (*Loader, error) {
	t.Helper()
	l := New(Options{Client: c, Size: size, Parallel: 4})
	quiet := func(int, int) {}
	if err := l.Namespaces(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.CRDs(ctx, quiet); err != nil {
		t.Fatal(err)
	}
	if err := l.Instances(ctx, quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find(ctx); err != nil {
		return l, err
	}
	return l, l.Fleet(ctx, quiet)
}

func TestASecondLoadFindsNothingToDo(t *testing.T) {
	t.Parallel()
	size := Size{CRDs: 4, Clusters: 2, Machines: 12}
	c := fakeCluster(size)
	first, err := loadAll(t.Context(), t, c, size)
	if err != nil {
		t.Fatal(err)
	}
	got := writes(c)
	for what, want := range map[string]int{
		"create machines": 12, "patch machines status": 12, "create clusters": 2, "patch clusters status": 2, "create customresourcedefinitions": 4,
	} {
		if got[what] != want {
			t.Errorf("%s: %d times, want %d", what, got[what], want)
		}
	}
	second, err := loadAll(t.Context(), t, c, size)
	if err != nil {
		t.Fatal(err)
	}
	if second.Created() != 0 || second.Present() != first.Created() {
		t.Errorf("the second load made %d objects and found %d, want 0 and %d", second.Created(), second.Present(), first.Created())
	}
	for what, n := range writes(c) {
		if !strings.HasPrefix(what, "create ") { // which is refused, as it is there
			t.Errorf("the second load: %s %d times", what, n)
		}
	}
}

func TestALoadThatWasInterruptedGoesOn(t *testing.T) {
	t.Parallel()
	size := Size{Clusters: 1, Machines: 6}
	c := fakeCluster(size)
	if _, err := loadAll(t.Context(), t, c, size); err != nil {
		t.Fatal(err)
	}
	// One Machine is missing, another has no status yet.
	ns := c.Resource(machines().gvr).Namespace(namespaceName(0))
	all, err := ns.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 6 {
		t.Fatalf("%d Machines, error %v", len(all.Items), err)
	}
	if err := ns.Delete(t.Context(), all.Items[0].GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(all.Items[1].Object, "status")
	if _, err := ns.Update(t.Context(), &all.Items[1], metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	l := New(Options{Client: c, Size: size, Parallel: 1})
	if missing, err := l.Find(t.Context()); err != nil || missing != 2 {
		t.Errorf("%d objects are missing, error %v; want 2", missing, err)
	}
	c.ClearActions()
	if err := l.Fleet(t.Context(), func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"create machines": 1, "patch machines status": 2}, writes(c)); diff != "" {
		t.Errorf("writes, -want +got:\n%s", diff)
	}
}

func TestAnotherFleetIsRefused(t *testing.T) {
	t.Parallel()
	c := fakeCluster(Size{})
	if _, err := loadAll(t.Context(), t, c, Size{Clusters: 1, Machines: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := loadAll(t.Context(), t, c, Size{Clusters: 1, Machines: 4}); !errors.Is(err, ErrOtherFleet) || !strings.Contains(err.Error(), "1 Clusters with 3 Machines") {
		t.Errorf("error %v, want that another fleet is there", err)
	}
}

func TestAClusterWithoutClusterAPIIsNamed(t *testing.T) {
	t.Parallel()
	c := fakeCluster(Size{})
	c.PrependReactor("list", "machinesets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(machineSets().gvr.GroupResource(), "")
	})
	if _, err := loadAll(t.Context(), t, c, Size{Clusters: 1, Machines: 3}); !errors.Is(err, ErrNoClusterAPI) {
		t.Errorf("error %v, want that Cluster API is missing", err)
	}
}

func TestOwnersAreNamedByTheUIDsThatTheyWereGiven(t *testing.T) {
	t.Parallel()
	size := Size{Clusters: 1, Machines: 6}
	c := fakeCluster(size)
	if _, err := loadAll(t.Context(), t, c, size); err != nil {
		t.Fatal(err)
	}
	all, err := c.Resource(machines().gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		owner := metav1.GetControllerOf(&all.Items[i])
		if owner == nil || owner.UID == "" || owner.Kind != "KubeadmControlPlane" && owner.Kind != "MachineSet" {
			t.Errorf("Machine %s is controlled by %v", all.Items[i].GetName(), owner)
		}
	}
}

func TestControllersAreKeptFromLeadingAndLetGo(t *testing.T) {
	t.Parallel()
	const ns = "capi-system"
	object := func(apiVersion, kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: more}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetLabels(map[string]string{providerLabel: "cluster-api"})
		return u
	}
	c := fakeCluster(Size{},
		object("v1", "Namespace", "", ns, map[string]any{}),
		object("coordination.k8s.io/v1", "Lease", ns, "election", map[string]any{"spec": map[string]any{"holderIdentity": "manager-a_1"}}),
		object("coordination.k8s.io/v1", "Lease", ns, "other", map[string]any{"spec": map[string]any{"holderIdentity": "someone"}}),
		object("v1", "Pod", ns, "manager-a", map[string]any{}),
	)
	// The Deployment makes a new Pod for one that is deleted.
	c.PrependReactor("delete", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		ready := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}
		return false, nil, c.Tracker().Create(pods(), object("v1", "Pod", ns, "manager-b", ready), ns)
	})
	holderOf := func(name string) string {
		t.Helper()
		u, err := c.Resource(leases()).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		who, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
		return who
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	free, err := Hold(ctx, c, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if got := holderOf("election"); got != holder {
		t.Errorf("%q holds the lease, want %q", got, holder)
	}
	if got := holderOf("other"); got != "someone" {
		t.Errorf("the lease of something else is held by %q", got)
	}
	cancel()
	if err := free(); err != nil {
		t.Fatal(err)
	}
	if got := holderOf("election"); got != "" {
		t.Errorf("%q holds the lease afterwards, want nobody", got)
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	t.Parallel()
	size := Size{Clusters: 1, Machines: 3}
	c := fakeCluster(size)
	var failed atomic.Int64
	c.PrependReactor("create", "machines", func(ktesting.Action) (bool, runtime.Object, error) {
		switch failed.Add(1) {
		case 1:
			return true, nil, errors.New("Bad Gateway")
		case 2:
			return true, nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return false, nil, nil
	})
	if _, err := loadAll(t.Context(), t, c, size); err != nil {
		t.Fatal(err)
	}
	if got := writes(c)["create machines"]; got != 5 {
		t.Errorf("%d creations, want 3 and two that failed", got)
	}
	other := fakeCluster(size)
	other.PrependReactor("create", "clusters", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewBadRequest("no")
	})
	if _, err := loadAll(t.Context(), t, other, size); !apierrors.IsBadRequest(err) {
		t.Errorf("error %v, want the refusal at once", err)
	}
}
