// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Client returns a client of the management cluster, for what a person would do with kubectl.
func (b *Bed) Client(t *testing.T) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// PatchDeployment does what `kubectl patch deployment` does, under its name.
func (b *Bed) PatchDeployment(t *testing.T, namespace, name, patch string) {
	t.Helper()
	_, err := b.Client(t).AppsV1().Deployments(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-patch"})
	if err != nil {
		t.Fatal(err)
	}
}

// Dynamic returns a client of one resource in namespace default.
func (b *Bed) Dynamic(t *testing.T, group, version, resource string) dynamic.ResourceInterface {
	t.Helper()
	return b.Cluster(t).Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace("default")
}

// Cluster returns a client of every resource.
func (b *Bed) Cluster(t *testing.T) dynamic.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
