// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestApplyWaitsForAWebhookWithoutItsCA covers the moment between a provider being available and its webhooks being
// verifiable.
func TestApplyWaitsForAWebhookWithoutItsCA(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers   []error
		wantCalls int
		wantErr   bool
	}{
		"a webhook that is not verifiable yet is asked again": {
			answers:   []error{apierrors.NewInternalError(errors.New(`failed calling webhook "w": x509: certificate signed by unknown authority`)), nil},
			wantCalls: 2,
		},
		"another answer is final": {answers: []error{apierrors.NewBadRequest("no")}, wantCalls: 1, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			client := fake.NewSimpleDynamicClient(runtime.NewScheme())
			client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				calls++
				return true, &unstructured.Unstructured{}, tc.answers[calls-1]
			})
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}}
			err := applyPatiently(t.Context(), client.Resource(resourceOf(u.GroupVersionKind())), u)
			if (err != nil) != tc.wantErr || calls != tc.wantCalls {
				t.Errorf("%d calls, %v; want %d, error %t", calls, err, tc.wantCalls, tc.wantErr)
			}
		})
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		workers int
		want    []string
	}{
		"with workers": {3, []string{
			"Cluster fleet-1", "DevCluster fleet-1", "DevMachineTemplate fleet-1-control-plane",
			"KubeadmControlPlane fleet-1-control-plane", "DevMachineTemplate fleet-1-md-0", "KubeadmConfigTemplate fleet-1-md-0",
			"MachineDeployment fleet-1-md-0",
		}},
		"without workers there is no MachineDeployment": {0, []string{
			"Cluster fleet-1", "DevCluster fleet-1",
			"DevMachineTemplate fleet-1-control-plane", "KubeadmControlPlane fleet-1-control-plane",
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Cluster{Name: "fleet-1", Namespace: "default", Kubernetes: "v1.36.3", ControlPlanes: 3, Workers: tc.workers, Startup: time.Second}
			objects, err := c.Objects()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range objects {
				got = append(got, u.GetKind()+" "+u.GetName())
				if u.GetNamespace() != "default" {
					t.Errorf("%s is in namespace %q", u.GetName(), u.GetNamespace())
				}
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("objects (-got +want):\n%s", diff)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	want := []Cluster{{Name: "a", Namespace: "default", ControlPlanes: 1, Workers: 1}}
	cases := map[string]struct {
		states  []State
		missing string
	}{
		"a cluster that is whole":         {[]State{{Namespace: "default", Name: "a", Available: true, Machines: 2, Running: 2}}, ""},
		"no cluster":                      {nil, "a: there is no such Cluster"},
		"a cluster of another namespace":  {[]State{{Namespace: "x", Name: "a", Available: true, Machines: 2, Running: 2}}, "there is no such"},
		"a machine that does not run":     {[]State{{Namespace: "default", Name: "a", Available: true, Machines: 2, Running: 1}}, "1 of 2 Machines"},
		"a cluster that is not available": {[]State{{Namespace: "default", Name: "a", Machines: 2, Running: 2, Message: "etcd\nis down"}}, "etcd is down"},
		"a surplus machine is not whole":  {[]State{{Namespace: "default", Name: "a", Available: true, Machines: 3, Running: 3}}, "3 of 2"},
		"other clusters don't matter at all": {[]State{
			{Namespace: "default", Name: "a", Available: true, Machines: 2, Running: 2},
			{Namespace: "default", Name: "b"},
		}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			missing, _ := compare(tc.states, want)
			got := strings.Join(missing, "; ")
			if (got == "") != (tc.missing == "") || !strings.Contains(got, tc.missing) {
				t.Errorf("got %q, want it to say %q", got, tc.missing)
			}
		})
	}
}
