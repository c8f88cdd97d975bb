// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryserver "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// Options are what a daemon needs; all are required.
type Options struct {
	// REST reaches the management cluster.
	REST *rest.Config
	// Address is where workload clusters are served, and MinPort the first of their ports.
	Address string
	MinPort int32
	// HealthAddress is where the daemon says that it lives.
	HealthAddress string
	Clock         clock.Clock
	Log           logr.Logger
}

// The kinds the daemon reads. It has no types for them, as it writes the status of hosts alone.
func hostKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"}
}

func metalMachineKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "Metal3Machine"}
}

// Run runs the daemon until ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx = ctrl.LoggerInto(ctx, o.Log)
	ctrl.SetLogger(o.Log)
	stop, err := serveHealth(ctx, o.HealthAddress)
	if err != nil {
		return err
	}
	defer stop()
	if err := awaitKinds(ctx, o.REST, o.Log); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("make scheme: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(o.REST, ctrl.Options{
		Scheme: scheme, Logger: o.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{host.ConfigNamespace: {}}},
		}},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}, Unstructured: true}},
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	hosts := &hostReconciler{client: mgr.GetClient(), clock: o.Clock}
	if err := hosts.setup(mgr); err != nil {
		return fmt.Errorf("set up hosts: %w", err)
	}
	site, err := newSite(ctx, o)
	if err != nil {
		return err
	}
	clusters := &clusterReconciler{client: mgr.GetClient(), site: site, clock: o.Clock}
	if err := clusters.setup(mgr); err != nil {
		return fmt.Errorf("set up clusters: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// newSite starts the in-memory servers.
func newSite(ctx context.Context, o Options) (*site, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		cloudv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme,
		apiextensionsv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make workload scheme: %w", err)
		}
	}
	memory := inmemoryruntime.NewManager(scheme)
	if err := memory.Start(ctx); err != nil {
		return nil, fmt.Errorf("start in-memory manager: %w", err)
	}
	mux, err := inmemoryserver.NewWorkloadClustersMux(memory, o.Address,
		inmemoryserver.CustomPorts{MinPort: o.MinPort, MaxPort: o.MinPort + 1000, DebugPort: o.MinPort - 1})
	if err != nil {
		return nil, fmt.Errorf("start workload servers: %w", err)
	}
	return &site{memory: memory, mux: mux, clock: o.Clock}, nil
}

// serveHealth answers 200 on every path until stopped.
func serveHealth(ctx context.Context, address string) (func(), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for health: %w", err)
	}
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			ctrl.LoggerFrom(ctx).Error(err, "Health server ended")
		}
	}()
	return func() { _ = srv.Close(); <-done }, nil
}

// awaitKinds waits until the management cluster has all kinds that are watched: the daemon starts before they are installed.
func awaitKinds(ctx context.Context, cfg *rest.Config, log logr.Logger) error {
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	missing := []schema.GroupVersionKind{hostKind(), metalMachineKind(), clusterv1.GroupVersion.WithKind("Machine")}
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(context.Context) (bool, error) {
		for len(missing) > 0 {
			list, err := disco.ServerResourcesForGroupVersion(missing[0].GroupVersion().String())
			if err != nil {
				log.V(1).Info("Waiting for a kind", "kind", missing[0], "err", err.Error())
				return false, nil
			}
			found := false
			for i := range list.APIResources {
				found = found || list.APIResources[i].Kind == missing[0].Kind
			}
			if !found {
				return false, nil
			}
			missing = missing[1:]
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for custom resources: %w", err)
	}
	return nil
}

// object makes an empty object of a kind.
func object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// listOf makes an empty list of a kind.
func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return l
}
