// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// What Metal3 calls things.
const (
	metalAPIVersion         = "metal3.io/v1alpha1"
	hostAnnotation          = "metal3.io/BareMetalHost"
	hostDetachedAnnotation  = "baremetalhost.metal3.io/detached"
	hostUnhealthyAnnotation = "capm3.metal3.io/unhealthy"
	hostUnhealthyBefore     = "capi.metal3.io/unhealthy"
	nodeReuseLabel          = "infrastructure.cluster.x-k8s.io/node-reuse"
)

// hostsAnswer are the bare-metal hosts of a namespace; its zero value has none.
type hostsAnswer struct {
	bare []world.BareHost
	// byName are the hosts by namespace/name, byConsumer by the name of the object that has them.
	byName, byConsumer map[string]*unstructured.Unstructured
	err                error
}

// hostsOf lists the bare-metal hosts of a namespace; nothing where that kind is not served.
func (p *poolReader) hostsOf(ctx context.Context, namespace string) hostsAnswer {
	return p.bareHosts.get(namespace, func() hostsAnswer {
		a := p.listed(ctx, world.Ref{APIVersion: metalAPIVersion, Kind: "BareMetalHost", Namespace: namespace}, metav1.ListOptions{})
		if a.err != nil {
			return hostsAnswer{err: a.err}
		}
		return hostsIn(a.sorted())
	})
}

func hostsIn(hosts []*unstructured.Unstructured) hostsAnswer {
	out := hostsAnswer{byName: map[string]*unstructured.Unstructured{}, byConsumer: map[string]*unstructured.Unstructured{}}
	for _, u := range hosts {
		h := bareHost(u)
		out.bare = append(out.bare, h)
		out.byName[h.Namespace+"/"+h.Name] = u
		if h.Consumer.Name != "" {
			out.byConsumer[h.Consumer.Namespace+"/"+h.Consumer.Name] = u
		}
	}
	return out
}

// bareHost reads a BareMetalHost.
func bareHost(u *unstructured.Unstructured) world.BareHost {
	h := world.BareHost{
		Namespace: u.GetNamespace(), Name: u.GetName(), Labels: u.GetLabels(), Deleting: u.GetDeletionTimestamp() != nil,
		State: stringAt(u, "status", "provisioning", "state"), Operational: stringAt(u, "status", "operationalStatus"),
		Error: stringAt(u, "status", "errorMessage"), ReservedFor: u.GetLabels()[nodeReuseLabel],
		PoweredOn: boolAt(u, "status", "poweredOn"), Online: boolAt(u, "spec", "online"), Externally: boolAt(u, "spec", "externallyProvisioned"),
		Cleaning: stringAt(u, "spec", "automatedCleaningMode"), Architecture: stringAt(u, "spec", "architecture"),
		Image:         stringAt(u, "status", "provisioning", "image", "url"),
		ImageChecksum: stringAt(u, "status", "provisioning", "image", "checksum"),
	}
	has := func(annotations ...string) bool {
		return slices.ContainsFunc(annotations, func(a string) bool { _, found := u.GetAnnotations()[a]; return found })
	}
	h.Paused, h.Detached = has(hostPausedAnnotation), has(hostDetachedAnnotation)
	h.Unhealthy = has(hostUnhealthyAnnotation, hostUnhealthyBefore)
	if consumer, found, _ := unstructured.NestedMap(u.Object, "spec", "consumerRef"); found {
		h.Consumer = refIn(consumer, u.GetNamespace())
	}
	hints, _, _ := unstructured.NestedMap(u.Object, "spec", "rootDeviceHints")
	h.RootHints = len(hints) > 0
	if hardware, found, _ := unstructured.NestedMap(u.Object, "status", "hardware"); found {
		inspected(&h, hardware)
	}
	return h
}

// refIn reads a reference that may leave out its namespace.
func refIn(m map[string]any, namespace string) world.Ref {
	text := func(field string) string { s, _ := m[field].(string); return s }
	return world.Ref{APIVersion: text("apiVersion"), Kind: text("kind"), Namespace: cmp.Or(text("namespace"), namespace), Name: text("name")}
}

// inspected fills in what the inspection found, as a host or its HardwareData has it.
func inspected(h *world.BareHost, hardware map[string]any) {
	arch, _, _ := unstructured.NestedString(hardware, "cpu", "arch")
	h.Architecture = cmp.Or(arch, h.Architecture)
	h.MemoryMiB, _, _ = unstructured.NestedInt64(hardware, "ramMebibytes")
	disks, _, _ := unstructured.NestedSlice(hardware, "storage")
	h.Disks = nil
	for _, d := range disks {
		if m, ok := d.(map[string]any); ok {
			name, _, _ := unstructured.NestedString(m, "name")
			size, _, _ := unstructured.NestedInt64(m, "sizeBytes")
			h.Disks = append(h.Disks, world.Disk{Name: name, SizeBytes: size})
		}
	}
}

// placed fills in the host that a Machine's infrastructure has.
func placed(m *world.RolledMachine, infrastructure *unstructured.Unstructured, hosts hostsAnswer) {
	h := hosts.of(infrastructure)
	if h == nil {
		if _, name, found := strings.Cut(infrastructure.GetAnnotations()[hostAnnotation], "/"); found {
			m.Host = name
		}
		return
	}
	m.Host = h.GetName()
	m.HostState = cmp.Or(stringAt(h, "status", "errorType"), stringAt(h, "status", "provisioning", "state"))
	m.HostError = stringAt(h, "status", "errorMessage")
}

// of finds the host that an infrastructure Machine names, or that names it as its consumer; nil if none does.
func (a hostsAnswer) of(infrastructure *unstructured.Unstructured) *unstructured.Unstructured {
	if named := infrastructure.GetAnnotations()[hostAnnotation]; named != "" {
		return a.byName[named]
	}
	h := a.byConsumer[infrastructure.GetNamespace()+"/"+infrastructure.GetName()]
	if h == nil {
		return nil
	}
	consumer, _, _ := unstructured.NestedMap(h.Object, "spec", "consumerRef")
	if !refIn(consumer, h.GetNamespace()).Same(world.RefOf(infrastructure)) {
		return nil
	}
	return h
}
