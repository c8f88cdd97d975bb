// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
	"github.com/capstan-dev/capstan/sandbox/internal/workload"
	"github.com/capstan-dev/capstan/sandbox/metal"
	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// rollPatience bounds one roll of all machines; without a spare host it takes a minute.
const rollPatience = 4 * time.Minute

// TestRollOnBareMetal rolls a real KubeadmControlPlane and a MachineDeployment by hand over as many hosts as there are machines, swaps the provider below
// them, and runs into the wall that a surge without a spare host is.
func TestRollOnBareMetal(t *testing.T) {
	if os.Getenv("CAPSTAN_METAL_STORY") == "" {
		t.Skip("CAPSTAN_METAL_STORY is not set: this test starts a sandbox with Cluster API and takes minutes; `make test-scenarios` sets it")
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		if _, errOut, code := runCLIWith(context.Background(), "down", "--dir", dir); code != exitDone { //nolint:usetesting // the test's context has ended
			t.Errorf("down: %s", errOut)
		}
	})
	mustRun(t, "up", "--dir", dir, "--metal", "--hosts", "5", "--control-planes", "3", "--workers", "2")
	k, err := newKube(supervisor.Layout{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := &metalStory{t: t, dir: dir, k: k, nodes: clientOf(t, strings.TrimSpace(mustRun(t, "kubeconfig", "--dir", dir, "--cluster", "metal-1")))}
	stop := s.probe()
	s.rollWithoutSpare()
	s.swapProvider()
	s.surgeWithoutSpare()
	if lost := stop(); lost > 0 {
		t.Errorf("the workload cluster did not answer %d times", lost)
	}
}

// metalStory is a sandbox on bare metal with its one workload cluster.
type metalStory struct {
	t     *testing.T
	dir   string
	k     kube
	nodes kubernetes.Interface
}

// probe asks the workload cluster again and again until it is stopped, which tells how often there was no answer.
func (s *metalStory) probe() (stop func() int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	lost := 0
	wg.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			ask, done := context.WithTimeout(ctx, 5*time.Second)
			defer done()
			if err := s.nodes.CoreV1().RESTClient().Get().AbsPath("/").Do(ask).Error(); err != nil && ctx.Err() == nil {
				lost++
				s.t.Logf("probe: %v", err)
			}
		}, 100*time.Millisecond)
	})
	return func() int {
		cancel()
		wg.Wait()
		return lost
	}
}

func (s *metalStory) resource(group, resource string) schema.GroupVersionResource {
	version := "v1beta2"
	if group == "metal3.io" {
		version = "v1alpha1"
	}
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

func (s *metalStory) templates() schema.GroupVersionResource {
	return s.resource("infrastructure.cluster.x-k8s.io", "metal3machinetemplates")
}

func (s *metalStory) patch(gvr schema.GroupVersionResource, name string, patch map[string]any) {
	s.t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.k.dynamic.Resource(gvr).Namespace("metal-1").Patch(s.t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		s.t.Fatalf("patch %s: %v", name, err)
	}
}

// copyTemplate makes a template like another one but with another image.
func (s *metalStory) copyTemplate(from, to string, image int) {
	s.t.Helper()
	r := s.k.dynamic.Resource(s.templates()).Namespace("metal-1")
	u, err := r.Get(s.t.Context(), from, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	next := &unstructured.Unstructured{Object: map[string]any{"spec": u.Object["spec"]}}
	next.SetGroupVersionKind(u.GroupVersionKind())
	next.SetName(to)
	known := s.images()[image]
	for field, value := range map[string]string{"url": known.URL, "checksum": known.SHA256} {
		if err := unstructured.SetNestedField(next.Object, value, "spec", "template", "spec", "image", field); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := r.Create(s.t.Context(), next, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *metalStory) images() []host.KnownImage { return workload.Images("v1.36.3") }

// repoint has the control plane use a template, with so many machines more than it needs.
func (s *metalStory) repoint(template string, maxSurge int) {
	s.t.Helper()
	s.patch(s.resource("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"), "metal-1-control-plane", map[string]any{"spec": map[string]any{
		"rollout": map[string]any{"strategy": map[string]any{
			"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": maxSurge},
		}},
		"machineTemplate": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{"name": template}}},
	}})
}

func (s *metalStory) hosts() []hostState {
	s.t.Helper()
	var list []hostState
	if err := json.Unmarshal([]byte(mustRun(s.t, "host", "list", "--dir", s.dir, "-o", "json")), &list); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// running is what each node says it runs, with its host.
func (s *metalStory) running() []string {
	s.t.Helper()
	list, err := s.nodes.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		n := &list.Items[i]
		role := workload.PoolWorkers
		if _, ok := n.Labels["node-role.kubernetes.io/control-plane"]; ok {
			role = workload.PoolControlPlane
		}
		ready := corev1.ConditionUnknown
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				ready = c.Status
			}
		}
		out = append(out, fmt.Sprintf("%s %s %s %s Ready=%s", strings.Split(n.Spec.ProviderID, "/")[3], role, n.Status.NodeInfo.KernelVersion,
			n.Status.NodeInfo.ContainerRuntimeVersion, ready))
	}
	slices.Sort(out)
	return out
}

// allOn is what running returns when all five machines run an image on their pool's hosts.
func (s *metalStory) allOn(image int) []string {
	var out []string
	for i, pool := range []string{workload.PoolControlPlane, workload.PoolControlPlane, workload.PoolControlPlane, workload.PoolWorkers, workload.PoolWorkers} {
		known := s.images()[image]
		out = append(out, fmt.Sprintf("host-%d %s %s %s Ready=True", i+1, pool, known.Kernel, known.Runtime))
	}
	return out
}

// rollWithoutSpare takes one machine after the other down and brings it back on its own host with the next image.
func (s *metalStory) rollWithoutSpare() {
	t := s.t
	if diff := cmp.Diff(s.running(), s.allOn(0)); diff != "" {
		t.Fatalf("before the roll (-got +want):\n%s", diff)
	}
	for _, name := range []string{"metal-1-control-plane", "metal-1-workers"} {
		s.patch(s.templates(), name, map[string]any{"spec": map[string]any{"nodeReuse": true}})
		s.copyTemplate(name, name+"-r2", 1)
	}
	s.repoint("metal-1-control-plane-r2", 0)
	s.patch(s.resource("cluster.x-k8s.io", "machinedeployments"), "metal-1-workers", map[string]any{"spec": map[string]any{
		"rollout": map[string]any{"strategy": map[string]any{
			"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": 0, "maxUnavailable": 1},
		}},
		"template": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{"name": "metal-1-workers-r2"}}},
	}})
	want := s.allOn(1)
	s.await("every machine runs the second image on its pool's hosts", func() bool {
		down := 0
		for _, h := range s.hosts() {
			if h.Pool == workload.PoolControlPlane && h.State != "provisioned" {
				down++
			}
		}
		if down > 1 {
			t.Errorf("%d hosts of the control plane are down at once", down)
		}
		return slices.Equal(s.running(), want)
	})
	for _, h := range s.hosts() {
		if h.Booked != "" {
			t.Errorf("host %s is still booked for %s", h.Name, h.Booked)
		}
	}
}

// swapProvider replaces the provider by its next version and looks whether anybody noticed.
func (s *metalStory) swapProvider() {
	t := s.t
	hosts, nodes := s.hosts(), s.running()
	mustRun(t, "clusterctl", "--dir", s.dir, "--", "upgrade", "apply", "--infrastructure", "metal3:"+metal.NextVersion)
	s.await("the new provider is available", func() bool {
		waiting, err := s.k.waitingDeployments(t.Context())
		return err == nil && len(waiting) == 0
	})
	d, err := s.k.typed.AppsV1().Deployments("capm3-system").Get(t.Context(), "capm3-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Spec.Template.Spec.Containers[0].Image, metal.Image+":"+metal.NextVersion; got != want {
		t.Errorf("the provider runs %s, want %s", got, want)
	}
	if diff := cmp.Diff(s.hosts(), hosts); diff != "" {
		t.Errorf("hosts (-after +before):\n%s", diff)
	}
	if diff := cmp.Diff(s.running(), nodes); diff != "" {
		t.Errorf("nodes (-after +before):\n%s", diff)
	}
}

// surgeWithoutSpare asks for one machine more than there are hosts: nothing moves any more, and nothing says why but the machine that waits. Taking the
// machine away together with the surge gets the roll going.
func (s *metalStory) surgeWithoutSpare() {
	t := s.t
	s.copyTemplate("metal-1-control-plane-r2", "metal-1-control-plane-r3", 2)
	before := s.hosts()
	s.repoint("metal-1-control-plane-r3", 1)
	waiting := ""
	s.await("a machine finds no host", func() bool { waiting = s.withoutHost(); return waiting != "" })
	// The provider looks again after 30 s; that does not help either.
	s.patch(s.resource("infrastructure.cluster.x-k8s.io", "metal3machines"), waiting, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"story": "look again"}},
	})
	if diff := cmp.Diff(s.hosts(), before); diff != "" {
		t.Errorf("hosts (-got +want):\n%s", diff)
	}
	s.repoint("metal-1-control-plane-r3", 0)
	if got := s.withoutHost(); got != waiting {
		t.Errorf("another strategy alone got the roll going: %q waits", got)
	}
	machines := s.k.dynamic.Resource(s.resource("cluster.x-k8s.io", "machines")).Namespace("metal-1")
	if err := machines.Delete(t.Context(), waiting, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := append(s.allOn(2)[:3], s.allOn(1)[3:]...)
	s.await("the control plane runs the third image", func() bool { return slices.Equal(s.running(), want) })
}

// withoutHost names a machine that says there is no host for it.
func (s *metalStory) withoutHost() string {
	s.t.Helper()
	list, err := s.k.dynamic.Resource(s.resource("infrastructure.cluster.x-k8s.io", "metal3machines")).Namespace("metal-1").
		List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["reason"] == "AssociateBareMetalHostFailed" {
				return list.Items[i].GetName()
			}
		}
	}
	return ""
}

func (s *metalStory) await(what string, done func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), pollEvery, rollPatience, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		s.t.Fatalf("%s: %v\n%s\n%s", what, err, strings.Join(s.running(), "\n"), mustRun(s.t, "host", "list", "--dir", s.dir))
	}
}
