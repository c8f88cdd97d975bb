// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func catalogOfTwo() *Images {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	made := metav1.NewTime(now.Add(-3 * time.Hour))
	return &Images{Now: now, Next: "kubectl get nodeimage NAME -o yaml", Images: []v1alpha1.NodeImage{
		{ObjectMeta: metav1.ObjectMeta{Name: "ami", CreationTimestamp: made}, Spec: v1alpha1.NodeImageSpec{ID: "ami-1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "u2404", CreationTimestamp: made}, Spec: v1alpha1.NodeImageSpec{
			URL: "http://img/u.qcow2", Format: "qcow2", SizeBytes: 2 << 30,
			Contents: v1alpha1.NodeImageContents{
				OSImage: "Ubuntu 24.04.1 LTS", KernelVersion: "6.8.0-45-generic", ContainerRuntimeVersion: "containerd://1.7.22",
				KubeletVersion: "v1.34.1", Architecture: "amd64",
			},
		}},
	}}
}

func TestImagesText(t *testing.T) {
	t.Parallel()
	want := `NAME   OS                  KERNEL            RUNTIME              KUBELET  ARCH   FORMAT  SIZE   AGE
ami    -                   -                 -                    -        -      -       -      3 h
  ami-1
u2404  Ubuntu 24.04.1 LTS  6.8.0-45-generic  containerd://1.7.22  v1.34.1  amd64  qcow2   2 GiB  3 h
  http://img/u.qcow2

Next: kubectl get nodeimage NAME -o yaml
`
	if diff := cmp.Diff(want, catalogOfTwo().Text(Style{})); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
	want = "No image in the catalog\n\nNext: kubectl apply -f FILE\n"
	if diff := cmp.Diff(want, (&Images{Next: "kubectl apply -f FILE"}).Text(Style{})); diff != "" {
		t.Errorf("screen of an empty catalog (-want +got):\n%s", diff)
	}
}

func TestImagesForPrograms(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   *Images
		want string
	}{
		"two": {catalogOfTwo(), `{"apiVersion":"capstan.dev/v1alpha1","kind":"ImageList","images":[` +
			`{"name":"ami","createdAt":"2026-07-01T09:00:00Z","spec":{"id":"ami-1","contents":{}}},` +
			`{"name":"u2404","createdAt":"2026-07-01T09:00:00Z","spec":{"url":"http://img/u.qcow2","format":"qcow2","sizeBytes":2147483648,` +
			`"contents":{"osImage":"Ubuntu 24.04.1 LTS","kernelVersion":"6.8.0-45-generic","containerRuntimeVersion":"containerd://1.7.22",` +
			`"kubeletVersion":"v1.34.1","architecture":"amd64"}}}]}`},
		"none": {&Images{}, `{"apiVersion":"capstan.dev/v1alpha1","kind":"ImageList","images":[]}`},
	} {
		got, err := json.Marshal(tc.in.Object())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
