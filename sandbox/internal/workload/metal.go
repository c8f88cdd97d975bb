// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// PoolLabel is on each simulated host and says which pool it is for; the machine templates select by it.
const PoolLabel = "sandbox.capstan.dev/pool"

// The pools.
const (
	PoolControlPlane = "control-plane"
	PoolWorkers      = "workers"
)

// Metal is what a Cluster on simulated bare metal has beside the rest.
type Metal struct {
	// Hosts are its machines-to-be. There may be more than machines.
	Hosts []Host
	// EndpointHost and EndpointPort are the address that its API server is to have, as for a virtual IP on real metal.
	EndpointHost string
	EndpointPort int
	// Image is what the hosts are provisioned with.
	Image host.KnownImage
}

// Host is a simulated host.
type Host struct {
	Name string
	Pool string
	MAC  string
	UUID string
}

// Hosts names the hosts of a cluster: those for the control plane first, then those for workers, and the spare ones at the end, in turns for either,
// beginning with the control plane.
func Hosts(cluster, count, controlPlanes, workers int) []Host {
	var all []Host
	for i := range count {
		pool := PoolWorkers
		switch spare := i - controlPlanes - workers; {
		case i < controlPlanes, spare >= 0 && spare%2 == 0:
			pool = PoolControlPlane
		}
		all = append(all, Host{
			Name: fmt.Sprintf("host-%d", i+1), Pool: pool, MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", cluster, i+1),
			UUID: fmt.Sprintf("%08x-0000-4000-8000-%012x", cluster, i+1),
		})
	}
	return all
}

// Images are what hosts of a sandbox can be provisioned with, unless more are added: three builds, each with newer parts than the one before.
func Images(kubernetes string) []host.KnownImage {
	build := func(n int, kernel, os, runtime, sum string) host.KnownImage {
		name := fmt.Sprintf("ubuntu-22.04-%s-r%d", kubernetes, n)
		return host.KnownImage{
			Name: name, URL: "http://images.sandbox.capstan.dev/" + name + ".qcow2", SHA256: sum,
			OSImage: os, Kernel: kernel, Runtime: "containerd://" + runtime, Kubelet: kubernetes,
		}
	}
	return []host.KnownImage{
		build(1, "5.15.0-105-generic", "Ubuntu 22.04.4 LTS", "2.0.5", "1ba8dc7af0b0a6a0b8b8ee66a9b3e4a5d1e55cbb9b4a77cdb3e8fd1b5a1ec001"),
		build(2, "5.15.0-118-generic", "Ubuntu 22.04.5 LTS", "2.1.4", "2ba8dc7af0b0a6a0b8b8ee66a9b3e4a5d1e55cbb9b4a77cdb3e8fd1b5a1ec002"),
		build(3, "5.15.0-130-generic", "Ubuntu 22.04.5 LTS", "2.1.5", "3ba8dc7af0b0a6a0b8b8ee66a9b3e4a5d1e55cbb9b4a77cdb3e8fd1b5a1ec003"),
	}
}

// awaitHosts waits until no host of a namespace is on its way to be available.
func awaitHosts(ctx context.Context, client dynamic.Interface, namespace string) error {
	hosts := client.Resource(schema.GroupVersionResource{Group: "metal3.io", Version: "v1alpha1", Resource: "baremetalhosts"}).Namespace(namespace)
	waiting := ""
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := hosts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			switch state := field(&list.Items[i], "status", "provisioning", "state"); state {
			case "", "registering", "inspecting", "preparing":
				waiting = fmt.Sprintf("%s is %q", list.Items[i].GetName(), state)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for hosts of %s (%s): %w", namespace, waiting, err)
	}
	return nil
}
