// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Options are what the provider needs; all are required.
type Options struct {
	REST       *rest.Config
	Generation Generation
	// HealthAddress is where probes are answered.
	HealthAddress string
	// LeaderElect makes it wait for the lease.
	LeaderElect bool
	// Namespace is where the lease is.
	Namespace string
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Run runs the provider until ctx ends.
func Run(ctx context.Context, o Options) error {
	ctrl.SetLogger(o.Log)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("make scheme: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(o.REST, ctrl.Options{
		Scheme: scheme, Logger: o.Log, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: o.HealthAddress,
		LeaderElection: o.LeaderElect, LeaderElectionID: "controller-leader-election-capm3", LeaderElectionNamespace: o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"healthz": mgr.AddHealthzCheck, "readyz": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	// Objects without Go types are read from the API server and not from a cache, so that what was just written is seen.
	b := base{client: mgr.GetClient(), generation: o.Generation, clock: o.Clock}
	for _, setup := range []func(ctrl.Manager) error{
		(&clusterReconciler{b}).setup, (&machineReconciler{b}).setup, (&templateReconciler{b}).setup,
	} {
		if err := setup(mgr); err != nil {
			return fmt.Errorf("set up controller: %w", err)
		}
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

const infraGroup = "infrastructure.cluster.x-k8s.io"

func infraKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: infraGroup, Version: "v1beta2", Kind: kind}
}

func hostKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"}
}

func controlPlaneKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}
}

// object makes an empty object of a kind.
func object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return l
}
