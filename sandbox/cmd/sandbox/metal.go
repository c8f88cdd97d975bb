// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
	"github.com/capstan-dev/capstan/sandbox/internal/workload"
	"github.com/capstan-dev/capstan/sandbox/metal"
	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// hostKindsLimit bounds the wait for the API server to serve the kinds of hosts.
const hostKindsLimit = 30 * time.Second

func (o *upOptions) completeMetal() error {
	if !o.metal {
		if o.spec.Hosts != 0 {
			return usagef("--hosts needs --metal")
		}
		o.spec.Metal = ""
		return nil
	}
	if o.spec.Clusters == 0 {
		o.spec.Clusters = 1
	}
	if o.spec.Hosts == 0 {
		o.spec.Hosts = o.spec.ControlPlanes + o.spec.Workers
	}
	return nil
}

func (o *upOptions) validateMetal() error {
	switch {
	case o.noCAPI:
		return usagef("--metal needs Cluster API: leave out --no-capi")
	case !slices.Contains(metal.Versions(), o.spec.Metal):
		return usagef("--metal3 %s: there are %s", o.spec.Metal, strings.Join(metal.Versions(), " and "))
	case o.spec.Hosts < o.spec.ControlPlanes+o.spec.Workers:
		return usagef("--hosts %d: %d machines need a host each", o.spec.Hosts, o.spec.ControlPlanes+o.spec.Workers)
	}
	return nil
}

// prepareMetal installs the kinds of hosts and the images they know.
func (o *upOptions) prepareMetal(ctx context.Context, p *progress, k kube) error {
	s := p.step("Install the kinds of bare metal hosts")
	return s.end(o.installMetal(ctx, k), "baremetal-operator's")
}

func (o *upOptions) installMetal(ctx context.Context, k kube) error {
	manifest, err := metal.HostKinds()
	if err != nil {
		return err //nolint:wrapcheck // says what was read
	}
	crds := k.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("decode kinds of hosts: %w", err)
		}
		if len(u.Object) == 0 {
			continue
		}
		if _, err := crds.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "sandbox", Force: true}); err != nil {
			return fmt.Errorf("install %s: %w", u.GetName(), err)
		}
	}
	if err := o.writeImages(ctx, k); err != nil {
		return err
	}
	hosts := k.dynamic.Resource(hostResource())
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollEvery, hostKindsLimit, true, func(ctx context.Context) (bool, error) {
		_, last = hosts.List(ctx, metav1.ListOptions{Limit: 1})
		return last == nil, nil
	})
	return errors.Join(err, last)
}

func (o *upOptions) writeImages(ctx context.Context, k kube) error {
	text, err := json.MarshalIndent(workload.Images(o.spec.Kubernetes), "", "  ")
	if err != nil {
		return fmt.Errorf("encode images: %w", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: host.ConfigNamespace}}
	if _, err := k.typed.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", ns.Name, err)
	}
	for name, data := range map[string]map[string]string{
		host.ImagesConfig:   {host.ImagesKey: string(text)},
		host.SettingsConfig: {host.DefaultKey: "{}"},
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		if _, err := k.typed.CoreV1().ConfigMaps(host.ConfigNamespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ConfigMap %s: %w", name, err)
		}
	}
	return nil
}

func hostResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "metal3.io", Version: "v1alpha1", Resource: "baremetalhosts"}
}

// metalClusters are the workload clusters on bare metal. Their API servers have the address of the sandbox's bridge, where the daemon serves them.
func (o *upOptions) metalClusters(ctx context.Context) ([]workload.Cluster, error) {
	st, err := supervisor.NewClient(o.layout).Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the sandbox's address: %w", err)
	}
	server, err := url.Parse(st.Addresses.APIServer)
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's address: %w", err)
	}
	var want []workload.Cluster
	for i := range o.spec.Clusters {
		name := fmt.Sprintf("metal-%d", i+1)
		want = append(want, workload.Cluster{
			Name: name, Namespace: name, Kubernetes: o.spec.Kubernetes, ControlPlanes: o.spec.ControlPlanes, Workers: o.spec.Workers,
			Metal: &workload.Metal{
				Hosts:        workload.Hosts(i+1, o.spec.Hosts, o.spec.ControlPlanes, o.spec.Workers),
				EndpointHost: server.Hostname(), EndpointPort: supervisor.MetalPort + i,
				Image: workload.Images(o.spec.Kubernetes)[0],
			},
		})
	}
	return want, nil
}
