// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-dev/capstan/sandbox/internal/workload"
	"github.com/capstan-dev/capstan/sandbox/metal"
	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// sharedKinds are the projects' own CRDs, beside the checkout where they are.
const sharedKinds = "../../../../shared/crds/metal3"

// TestWhatIsWrittenIsAccepted has the provider and the hosts' state machine write to a real API server with the real kinds, which refuses unknown fields.
func TestWhatIsWrittenIsAccepted(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: this test needs an API server; `make test` sets it")
	}
	t.Run("by the projects' own kinds", func(t *testing.T) {
		if _, err := os.Stat(sharedKinds); err != nil {
			t.Skipf("the projects' own kinds are not beside the checkout: %v", err)
		}
		lifeOfAMachine(t, envtest.CRDInstallOptions{Paths: []string{clusterAPIKinds(t), sharedKinds}})
	})
	t.Run("by the sandbox's kinds", func(t *testing.T) {
		lifeOfAMachine(t, envtest.CRDInstallOptions{Paths: []string{clusterAPIKinds(t)}, CRDs: sandboxKinds(t)})
	})
}

// clusterAPIKinds is where Cluster API's module has its CRDs.
func clusterAPIKinds(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("find Cluster API's module: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "core", "config", "crd", "bases")
}

func sandboxKinds(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	hosts, err := metal.HostKinds()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := metal.ProviderManifest(metal.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(append(hosts, provider...)), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return crds
		}
		if err != nil {
			t.Fatal(err)
		}
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, crd); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, crd)
	}
}

// lab is an API server with a cluster of one control plane machine that is wanted, and two hosts.
type lab struct {
	t      *testing.T
	client client.Client
	base   base
}

func lifeOfAMachine(t *testing.T, kinds envtest.CRDInstallOptions) {
	t.Helper()
	l := newLab(t, kinds)
	l.dryRun()
	l.makeCluster()
	l.moveHosts()

	machines := &machineReconciler{l.base}
	m := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal-1", Name: "m"}}
	l.reconcile(machines, m)
	taken := l.hostOf("m")
	l.moveHosts()
	l.reconcile(machines, m)
	infra := l.get(infraKind("Metal3Machine"), "m")
	if !flag(infra, "status", "initialization", "provisioned") || text(infra, "spec", "providerID") != "metal3://metal-1/"+taken+"/m" {
		t.Errorf("the machine is not provisioned: %v", infra.Object)
	}

	l.must(l.client.Delete(t.Context(), infra))
	l.reconcile(machines, m)
	l.moveHosts()
	l.reconcile(machines, m)
	if u, err := l.base.get(t.Context(), infraKind("Metal3Machine"), "metal-1", "m"); err != nil || u != nil {
		t.Errorf("the machine is not gone: %v %v", u, err)
	}
	if got := l.get(hostKind(), taken); got.GetLabels()[nodeReuseLabel] != "" || text(got, "spec", "consumerRef", "name") != "" {
		t.Errorf("the host is not free: %v", got.Object)
	}
}

func newLab(t *testing.T, kinds envtest.CRDInstallOptions) *lab {
	t.Helper()
	env := &envtest.Environment{CRDInstallOptions: kinds}
	cfg, err := env.Start()
	if err != nil {
		t.Fatalf("start API server: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop API server: %v", err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	c = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	return &lab{t: t, client: c, base: base{client: c, generation: New, clock: clock.RealClock{}}}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) get(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	l.t.Helper()
	u, err := l.base.get(l.t.Context(), kind, "metal-1", name)
	l.must(err)
	if u == nil {
		l.t.Fatalf("there is no %s %s", kind.Kind, name)
	}
	return u
}

func (l *lab) reconcile(r *machineReconciler, req ctrl.Request) {
	l.t.Helper()
	_, err := r.Reconcile(l.t.Context(), req)
	l.must(err)
}

// objects are what `sandbox up --metal` writes.
func (l *lab) objects() []*unstructured.Unstructured {
	l.t.Helper()
	c := workload.Cluster{
		Name: "metal-1", Namespace: "metal-1", Kubernetes: "v1.36.3", ControlPlanes: 1, Workers: 1,
		Metal: &workload.Metal{
			Hosts: workload.Hosts(1, 3, 1, 1), EndpointHost: "192.0.2.1", EndpointPort: 20000, Image: workload.Images("v1.36.3")[0],
		},
	}
	objects, err := c.Objects()
	l.must(err)
	return objects
}

// dryRun asks whether the objects of a new cluster would be accepted, as far as their kinds are there.
func (l *lab) dryRun() {
	l.t.Helper()
	seen := map[string]bool{}
	for _, u := range l.objects() {
		switch u.GroupVersionKind().Group {
		case infraGroup, "metal3.io":
			seen[u.GetKind()] = true
			if err := l.client.Create(l.t.Context(), u.DeepCopy(), client.DryRunAll); err != nil {
				l.t.Errorf("create %s %s: %v", u.GetKind(), u.GetName(), err)
			}
		case "":
			if u.GetKind() == "Namespace" {
				l.must(l.client.Create(l.t.Context(), u))
			}
		}
	}
	for _, kind := range []string{"BareMetalHost", "Metal3Cluster", "Metal3MachineTemplate"} {
		if !seen[kind] {
			l.t.Errorf("no %s was tried", kind)
		}
	}
}

// makeCluster writes what Cluster API would have written by the time a provider is asked.
func (l *lab) makeCluster() {
	l.t.Helper()
	ctx := l.t.Context()
	for _, u := range l.objects() {
		switch u.GetKind() {
		case "BareMetalHost", "Metal3Cluster", "Metal3MachineTemplate", "Cluster":
			l.must(l.client.Create(ctx, u))
		}
	}
	cl := &clusterv1.Cluster{}
	l.must(l.client.Get(ctx, types.NamespacedName{Namespace: "metal-1", Name: "metal-1"}, cl))
	infra := l.get(infraKind("Metal3Cluster"), "metal-1")
	infra.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cl.Name, UID: cl.UID}})
	l.must(l.client.Update(ctx, infra))
	_, err := (&clusterReconciler{l.base}).Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(infra)})
	l.must(err)
	if !flag(l.get(infraKind("Metal3Cluster"), "metal-1"), "status", "initialization", "provisioned") {
		l.t.Error("the Metal3Cluster is not provisioned")
	}
	cl.Status.Initialization.InfrastructureProvisioned = new(true)
	l.must(l.client.Status().Update(ctx, cl))
	l.makeMachine()
}

func (l *lab) makeMachine() {
	l.t.Helper()
	ctx := l.t.Context()
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal-1", Name: "m", Labels: map[string]string{
			clusterv1.ClusterNameLabel: "metal-1", clusterv1.MachineControlPlaneLabel: "",
		}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "metal-1", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("m")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infraGroup, Kind: "Metal3Machine", Name: "m"},
		},
	}
	l.must(l.client.Create(ctx, m))
	template := l.get(infraKind("Metal3MachineTemplate"), "metal-1-control-plane")
	spec, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	l.must(err)
	u := object(infraKind("Metal3Machine"))
	u.SetNamespace("metal-1")
	u.SetName("m")
	u.SetLabels(m.Labels)
	u.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: template.GetName()})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID}})
	set(u, spec, "spec")
	l.must(l.client.Create(ctx, u))
}

// moveHosts lets the hosts go on until they rest, writing each status.
func (l *lab) moveHosts() {
	l.t.Helper()
	now := time.Now() // where hosts start; from here on time is faked
	images := workload.Images("v1.36.3")
	for range 40 {
		list := listOf(hostKind())
		l.must(l.client.List(l.t.Context(), list, client.InNamespace("metal-1")))
		for i := range list.Items {
			u := &list.Items[i]
			var h host.Host
			l.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &h))
			next, _, _ := host.Step(h, host.World{Now: now, Images: images, CredentialsFound: true})
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
			l.must(err)
			u.Object["status"] = content
			l.must(l.client.Status().Update(l.t.Context(), u))
		}
		now = now.Add(time.Second)
	}
}

// hostOf names the host that a machine has.
func (l *lab) hostOf(machine string) string {
	l.t.Helper()
	key := l.get(infraKind("Metal3Machine"), machine).GetAnnotations()[hostAnnotation]
	_, name, err := splitKey(key)
	if err != nil {
		l.t.Fatalf("machine %s has no host: %v", machine, err)
	}
	if user := text(l.get(hostKind(), name), "spec", "consumerRef", "name"); user != machine {
		l.t.Errorf("host %s is used by %q", name, user)
	}
	return name
}
