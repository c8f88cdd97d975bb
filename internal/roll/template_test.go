// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("read object: %v", err)
	}
	return u
}

func builtInMaps(t *testing.T) Maps {
	t.Helper()
	m, err := BuiltIn()
	if err != nil {
		t.Fatalf("BuiltIn() = %v", err)
	}
	return m
}

func picture() *v1alpha1.NodeImage {
	return &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "u2404-2"}, Spec: v1alpha1.NodeImageSpec{
		URL: "http://img/u2.qcow2", ID: "ubuntu-2404-2", Checksum: "http://img/u2.sha256", ChecksumType: "sha256", Format: "qcow2",
	}}
}

const metal3 = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata:
  name: workers
  namespace: c1
  uid: u
  resourceVersion: "7"
  labels: {cluster.x-k8s.io/cluster-name: c1, app.kubernetes.io/instance: site, kustomize.toolkit.fluxcd.io/name: site}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", argocd.argoproj.io/tracking-id: x, note: kept}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: c1, uid: c}]
  managedFields: [{manager: kubectl}]
spec:
  template:
    spec:
      hostSelector: {matchLabels: {pool: w}}
      image: {url: "http://img/u1.qcow2", checksum: aa, checksumType: md5, diskFormat: raw}
status: {x: y}
`

func TestATemplateIsCopiedWithAnotherImage(t *testing.T) {
	t.Parallel()
	old := object(t, metal3)
	before := old.DeepCopy()
	got, err := builtInMaps(t).Template(old, picture(), TemplateOptions{NodeReuse: true})
	if err != nil {
		t.Fatalf("Template() = %v", err)
	}
	want := map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3MachineTemplate",
		"metadata": map[string]any{
			"name": got.GetName(), "namespace": "c1", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "c1"},
			"annotations": map[string]any{"note": "kept", BaseAnnotation: "workers"},
		},
		"spec": map[string]any{"nodeReuse": true, "template": map[string]any{"spec": map[string]any{
			"hostSelector": map[string]any{"matchLabels": map[string]any{"pool": "w"}},
			"image":        map[string]any{"url": "http://img/u2.qcow2", "checksum": "http://img/u2.sha256", "checksumType": "sha256", "diskFormat": "qcow2"},
		}}},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("the new template differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object, old.Object); diff != "" {
		t.Errorf("the old template was changed (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.GetName(), "workers-") || len(got.GetName()) != len("workers-")+hashLength {
		t.Errorf("name = %q, want workers-HASH", got.GetName())
	}
}

func TestNamesFollowFromContent(t *testing.T) {
	t.Parallel()
	m := builtInMaps(t)
	next := func(old *unstructured.Unstructured, url string, reuse bool) *unstructured.Unstructured {
		t.Helper()
		image := picture()
		image.Spec.URL = url
		got, err := m.Template(old, image, TemplateOptions{NodeReuse: reuse})
		if err != nil {
			t.Fatalf("Template() = %v", err)
		}
		return got
	}
	old := object(t, metal3)
	second := next(old, "http://img/u2.qcow2", false)
	if again := next(old, "http://img/u2.qcow2", true); again.GetName() != second.GetName() {
		t.Errorf("the same image gives %s and %s", second.GetName(), again.GetName())
	}
	if again := next(second, "http://img/u2.qcow2", true); again != nil {
		t.Errorf("a template with the image gets another one, %s", again.GetName())
	}
	third := next(second, "http://img/u3.qcow2", false)
	if !strings.HasPrefix(third.GetName(), "workers-") || strings.Count(third.GetName(), "-") != 1 {
		t.Errorf("the third name is %s, want one hash", third.GetName())
	}
	if back := next(third, "http://img/u2.qcow2", false); back.GetName() != second.GetName() {
		t.Errorf("going back gives %s, want %s", back.GetName(), second.GetName())
	}
	bare := second.DeepCopy()
	bare.SetAnnotations(nil)
	if got := next(bare, "http://img/u3.qcow2", false); got.GetName() != third.GetName() {
		t.Errorf("without the annotation the name is %s, want %s", got.GetName(), third.GetName())
	}
	edited := second.DeepCopy()
	if err := unstructured.SetNestedField(edited.Object, "http://img/other.qcow2", "spec", "template", "spec", "image", "url"); err != nil {
		t.Fatal(err)
	}
	if got := next(edited, "http://img/u2.qcow2", false); got.GetName() == edited.GetName() {
		t.Errorf("a template that was edited in place is to be replaced by itself")
	}
	old.SetName(strings.Repeat("long", 15) + "abc")
	if got := next(old, "http://img/u2.qcow2", false); len(got.GetName()) > nameLength {
		t.Errorf("name %s has %d characters", got.GetName(), len(got.GetName()))
	}
}

func TestEachKindHasItsFields(t *testing.T) {
	t.Parallel()
	const uuid = "5b1d7a3e-0d1c-4a51-8e0e-aaaaaaaaaaaa"
	for name, tt := range map[string]struct{ version, kind, spec, id, want string }{
		"Metal3 of the older API":    {"v1beta1", "Metal3MachineTemplate", `{image: {url: a, format: raw}}`, "", `{image: {url: "http://img/u2.qcow2", checksum: "http://img/u2.sha256", checksumType: sha256, format: qcow2}}`},
		"docker of the dev provider": {"v1beta2", "DevMachineTemplate", `{backend: {docker: {customImage: a}}}`, "", `{backend: {docker: {customImage: ubuntu-2404-2}}}`},
		"docker by itself":           {"v1beta1", "DockerMachineTemplate", `{}`, "", `{customImage: ubuntu-2404-2}`},
		"vSphere drops a snapshot":   {"v1beta1", "VSphereMachineTemplate", `{template: a, snapshot: s}`, "", `{template: ubuntu-2404-2}`},
		"OpenStack by name":          {"v1beta1", "OpenStackMachineTemplate", `{image: {id: a}}`, "", `{image: {filter: {name: ubuntu-2404-2}}}`},
		"OpenStack by id":            {"v1beta1", "OpenStackMachineTemplate", `{image: {filter: {name: a}}}`, uuid, `{image: {id: ` + uuid + `}}`},
		"older OpenStack by name":    {"v1alpha7", "OpenStackMachineTemplate", `{imageUUID: a}`, "", `{image: ubuntu-2404-2}`},
		"older OpenStack by id":      {"v1alpha7", "OpenStackMachineTemplate", `{image: a}`, uuid, `{imageUUID: ` + uuid + `}`},
		"AWS":                        {"v1beta2", "AWSMachineTemplate", `{ami: {eksLookupType: AmazonLinux}}`, "ami-1", `{ami: {id: ami-1}}`},
		"Azure":                      {"v1beta1", "AzureMachineTemplate", `{image: {marketplace: {sku: a}}}`, "/x", `{image: {id: /x}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := picture()
			if tt.id != "" {
				image.Spec.ID = tt.id
			}
			got, err := builtInMaps(t).Template(object(t, template(tt.version, tt.kind, tt.spec)), image, TemplateOptions{})
			if err != nil {
				t.Fatalf("Template() = %v", err)
			}
			if diff := cmp.Diff(object(t, template(tt.version, tt.kind, tt.want)).Object["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("spec differs (-want +got):\n%s", diff)
			}
		})
	}
}

func template(version, kind, spec string) string {
	return "{apiVersion: infrastructure.cluster.x-k8s.io/" + version + ", kind: " + kind + ", metadata: {name: a, namespace: c1}, spec: {template: {spec: " + spec + "}}}"
}

func TestTheInMemoryBackendIsAnnotated(t *testing.T) {
	t.Parallel()
	got, err := builtInMaps(t).Template(object(t, template("v1beta2", "DevMachineTemplate", `{backend: {inMemory: {}}}`)), picture(), TemplateOptions{})
	if err != nil {
		t.Fatalf("Template() = %v", err)
	}
	value, _, _ := unstructured.NestedString(got.Object, "spec", "template", "metadata", "annotations", "capstan.dev/image")
	if value != "u2404-2" {
		t.Errorf("the annotation is %q, want the image's name", value)
	}
}

func TestTemplatesAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		template string
		image    func(*v1alpha1.NodeImage)
		want     string
	}{
		"an unknown kind":        {template("v1", "OtherMachineTemplate", `{}`), nil, "OtherMachineTemplate"},
		"a backend not known":    {template("v1beta2", "DevMachineTemplate", `{backend: {other: {}}}`), nil, "None of the ways"},
		"an image without a url": {metal3, func(i *v1alpha1.NodeImage) { i.Spec.URL = "" }, "no url"},
		"an image without an id": {template("v1beta1", "OpenStackMachineTemplate", `{}`), func(i *v1alpha1.NodeImage) { i.Spec.ID = "" }, "no id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := picture()
			if tt.image != nil {
				tt.image(image)
			}
			_, err := builtInMaps(t).Template(object(t, tt.template), image, TemplateOptions{})
			var p *problem.Error
			if !errors.As(err, &p) || !strings.Contains(p.Error(), tt.want) {
				t.Errorf("Template() = %v, want a problem with %q", err, tt.want)
			}
		})
	}
}
