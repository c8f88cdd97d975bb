// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"strconv"

	k8slabels "k8s.io/apimachinery/pkg/labels"
)

const (
	clusterNameLabel      = "cluster.x-k8s.io/cluster-name"
	controlPlaneLabel     = "cluster.x-k8s.io/control-plane"
	controlPlaneNameLabel = "cluster.x-k8s.io/control-plane-name"
	deploymentNameLabel   = "cluster.x-k8s.io/deployment-name"
	setNameLabel          = "cluster.x-k8s.io/set-name"
	hashLabel             = "machine-template-hash"

	criSocket = "unix:///var/run/containerd/containerd.sock"
)

// fleetCluster is one Cluster's objects in the making.
type fleetCluster struct {
	shape
	parts bool
	items []*item
}

// clusterItems returns the objects of one Cluster, owners before what they own.
func clusterItems(s shape, parts bool) []*item {
	f := &fleetCluster{shape: s, parts: parts}
	cluster := f.cluster()
	f.controlPlane(cluster)
	for i, replicas := range s.pools {
		f.pool(cluster, i, replicas)
	}
	return f.items
}

func (f *fleetCluster) add(r resource, name string, owner *item) *item {
	i := newItem(r, f.namespace(), name, owner).labels(map[string]string{clusterNameLabel: f.name()})
	f.items = append(f.items, i)
	return i
}

func (f *fleetCluster) cluster() *item {
	workers := 0
	for _, n := range f.pools {
		workers += n
	}
	c := f.add(clusters(), f.name(), nil).finalizer("cluster.cluster.x-k8s.io").spec(map[string]any{
		"paused": true,
		"clusterNetwork": map[string]any{
			"pods":          map[string]any{"cidrBlocks": []any{"192.168.0.0/16"}},
			"services":      map[string]any{"cidrBlocks": []any{"10.128.0.0/12"}},
			"serviceDomain": "cluster.local",
		},
		"controlPlaneEndpoint": f.endpoint(),
		"controlPlaneRef":      refTo(controlPlanes(), f.controlPlaneName()),
		"infrastructureRef":    refTo(devClusters(), f.name()),
	})
	c.status = clusterStatus(f.controlPlanes, workers)

	d := f.add(devClusters(), f.name(), c).finalizer("dockercluster.infrastructure.cluster.x-k8s.io").spec(map[string]any{
		"backend":              map[string]any{"inMemory": map[string]any{}},
		"controlPlaneEndpoint": f.endpoint(),
	})
	// The docker provider panics on a DevCluster that has no annotation at all.
	d.object.SetAnnotations(map[string]string{"sandbox.capstan.dev/created-by": "sandbox"})
	d.status = map[string]any{"initialization": map[string]any{"provisioned": true}, "conditions": conditions(paused())}
	return c
}

func (f *fleetCluster) controlPlaneName() string { return f.name() + "-control-plane" }

// endpoint is an address for documentation, where nobody answers.
func (f *fleetCluster) endpoint() map[string]any {
	return map[string]any{"host": fmt.Sprintf("198.51.100.%d", 1+f.index%250), "port": int64(20000 + f.index%10000)}
}

func (f *fleetCluster) controlPlane(cluster *item) {
	template := f.template(f.controlPlaneName(), cluster)
	kcp := f.add(controlPlanes(), f.controlPlaneName(), cluster).finalizer("kubeadm.controlplane.cluster.x-k8s.io").spec(map[string]any{
		"replicas":          int64(f.controlPlanes),
		"version":           f.version(),
		"machineTemplate":   map[string]any{"spec": map[string]any{"infrastructureRef": template.ref()}},
		"kubeadmConfigSpec": kubeadmConfig(),
		"rollout": map[string]any{
			"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(1)}},
		},
	})
	kcp.status = controlPlaneStatus(f.controlPlanes, f.version(), "cluster.x-k8s.io/cluster-name="+f.name()+",cluster.x-k8s.io/control-plane")
	for i := range f.controlPlanes {
		f.machine(kcp, i, map[string]string{controlPlaneLabel: "", controlPlaneNameLabel: f.controlPlaneName()})
	}
}

func (f *fleetCluster) pool(cluster *item, index, replicas int) {
	name := fmt.Sprintf("%s-md-%d", f.name(), index)
	p := pool{cluster: f, replicas: replicas, infrastructure: f.template(name, cluster)}
	p.bootstrap = f.add(configTemplates(), name, cluster).spec(map[string]any{
		"template": map[string]any{"spec": map[string]any{"joinConfiguration": nodeRegistration()}},
	})
	labels := map[string]string{clusterNameLabel: f.name(), deploymentNameLabel: name}
	spec := p.spec(labels)
	spec["rollout"] = map[string]any{
		"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(1), "maxUnavailable": int64(0)}},
	}
	md := f.add(machineDeployments(), name, cluster).finalizer("cluster.x-k8s.io/machinedeployment").spec(spec)
	md.object.SetAnnotations(map[string]string{"machinedeployment.clusters.x-k8s.io/revision": "1"})
	md.status = deploymentStatus(replicas, selectorOf(labels))
	p.set(md, labels)
}

// pool is one MachineDeployment with its MachineSet in the making.
type pool struct {
	cluster                   *fleetCluster
	replicas                  int
	bootstrap, infrastructure *item
}

// set adds the MachineSet of a MachineDeployment, and its Machines.
func (p pool) set(md *item, labels map[string]string) {
	f, name := p.cluster, fmt.Sprintf("%s-%05d", md.object.GetName(), p.cluster.index)
	labels[hashLabel] = fmt.Sprintf("%d-%05d", 39761569+f.index, f.index)
	ms := f.add(machineSets(), name, md).labels(labels).finalizer("cluster.x-k8s.io/machineset").spec(p.spec(labels))
	ms.controls = true
	ms.object.SetAnnotations(map[string]string{
		"cluster.x-k8s.io/disable-machine-create":              "false",
		"machinedeployment.clusters.x-k8s.io/desired-replicas": strconv.Itoa(p.replicas),
		"machinedeployment.clusters.x-k8s.io/max-replicas":     strconv.Itoa(p.replicas + 1),
		"machinedeployment.clusters.x-k8s.io/revision":         "1",
	})
	ms.status = setStatus(p.replicas, selectorOf(labels))
	labels[setNameLabel] = name
	for i := range p.replicas {
		f.machine(ms, i, labels)
	}
}

// spec is what a MachineDeployment and its MachineSet have in common.
func (p pool) spec(labels map[string]string) map[string]any {
	f := p.cluster
	return map[string]any{
		"clusterName": f.name(), "replicas": int64(p.replicas), "selector": map[string]any{"matchLabels": anyMap(labels)},
		"template": map[string]any{
			"metadata": map[string]any{"labels": anyMap(labels)},
			"spec": map[string]any{
				"clusterName": f.name(), "version": f.version(),
				"bootstrap":         map[string]any{"configRef": p.bootstrap.ref()},
				"infrastructureRef": p.infrastructure.ref(),
			},
		},
	}
}

func (f *fleetCluster) template(name string, cluster *item) *item {
	startup := map[string]any{"provisioning": map[string]any{"startupDuration": "1s"}}
	return f.add(machineTemplates(), name, cluster).spec(map[string]any{
		"template": map[string]any{"spec": map[string]any{"backend": map[string]any{"inMemory": map[string]any{"vm": startup, "node": startup}}}},
	})
}

// machine adds the n-th Machine of a control plane or a MachineSet, with its parts where those are asked for.
func (f *fleetCluster) machine(owner *item, n int, labels map[string]string) {
	_, isControlPlane := labels[controlPlaneLabel]
	name := fmt.Sprintf("%s-%05d", owner.object.GetName(), n)
	m := f.add(machines(), name, owner).labels(labels).finalizer("machine.cluster.x-k8s.io").spec(map[string]any{
		"clusterName": f.name(), "version": f.version(), "providerID": "in-memory://" + name,
		"bootstrap":         map[string]any{"configRef": refTo(configs(), name), "dataSecretName": name},
		"infrastructureRef": refTo(devMachines(), name),
		"deletion":          map[string]any{"nodeDeletionTimeoutSeconds": int64(10)},
	})
	m.controls = true
	m.status = machineStatus(name, isControlPlane)
	if isControlPlane {
		m.object.SetAnnotations(map[string]string{"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""})
	}
	if f.parts {
		f.machineParts(m, labels)
	}
}

func (f *fleetCluster) machineParts(m *item, labels map[string]string) {
	name := m.object.GetName()
	config := f.add(configs(), name, m).labels(labels).spec(map[string]any{"joinConfiguration": nodeRegistration()})
	config.controls = true
	config.status = map[string]any{
		"dataSecretName": name, "observedGeneration": int64(1), "initialization": map[string]any{"dataSecretCreated": true},
		"conditions": conditions(yes("Ready", "Ready"), yes("DataSecretAvailable", "Available"), paused()),
	}
	infrastructure := f.add(devMachines(), name, m).labels(labels).finalizer("dockermachine.infrastructure.cluster.x-k8s.io").spec(map[string]any{
		"backend": map[string]any{"inMemory": map[string]any{}}, "providerID": "in-memory://" + name,
	})
	infrastructure.controls = true
	infrastructure.status = map[string]any{
		"initialization": map[string]any{"provisioned": true},
		"conditions":     conditions(yes("Ready", "Ready"), yes("VMProvisioned", "Provisioned"), yes("NodeProvisioned", "Provisioned"), paused()),
	}
}

func kubeadmConfig() map[string]any {
	return map[string]any{
		"clusterConfiguration": map[string]any{"apiServer": map[string]any{"certSANs": []any{"localhost", "127.0.0.1"}}},
		"initConfiguration":    nodeRegistration(), "joinConfiguration": nodeRegistration(),
	}
}

func nodeRegistration() map[string]any {
	return map[string]any{"nodeRegistration": map[string]any{"criSocket": criSocket}}
}

func anyMap(in map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		out[k] = v
	}
	return out
}

// selectorOf writes labels as a selector, sorted.
func selectorOf(set map[string]string) string { return k8slabels.SelectorFromSet(set).String() }
