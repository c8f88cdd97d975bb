// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Label is on every object that a load made.
const Label = "sandbox.capstan.dev/load"

const labelValue = "generated"

// resource is a kind as it is written.
type resource struct {
	gvr  schema.GroupVersionResource
	kind string
}

func capi(group, plural, kind string) resource {
	if group != "" {
		group += "."
	}
	return resource{schema.GroupVersionResource{Group: group + "cluster.x-k8s.io", Version: "v1beta2", Resource: plural}, kind}
}

func clusters() resource           { return capi("", "clusters", "Cluster") }
func machines() resource           { return capi("", "machines", "Machine") }
func machineSets() resource        { return capi("", "machinesets", "MachineSet") }
func machineDeployments() resource { return capi("", "machinedeployments", "MachineDeployment") }
func controlPlanes() resource {
	return capi("controlplane", "kubeadmcontrolplanes", "KubeadmControlPlane")
}

func configTemplates() resource {
	return capi("bootstrap", "kubeadmconfigtemplates", "KubeadmConfigTemplate")
}
func configs() resource     { return capi("bootstrap", "kubeadmconfigs", "KubeadmConfig") }
func devClusters() resource { return capi("infrastructure", "devclusters", "DevCluster") }
func devMachines() resource { return capi("infrastructure", "devmachines", "DevMachine") }
func machineTemplates() resource {
	return capi("infrastructure", "devmachinetemplates", "DevMachineTemplate")
}

// fleetResources are the kinds that a fleet consists of.
func fleetResources(parts bool) []resource {
	out := []resource{
		clusters(), devClusters(), machineTemplates(), configTemplates(), controlPlanes(), machineDeployments(), machineSets(), machines(),
	}
	if parts {
		out = append(out, configs(), devMachines())
	}
	return out
}

// item is one object to be there.
type item struct {
	resource resource
	object   *unstructured.Unstructured
	// status is written after the object was created, since an API server takes none at its creation; nil for none.
	status map[string]any
	// owner is an item that comes before this one; its UID is known only once it is there.
	owner *item
	// controls tells that the owner is the one controller.
	controls bool
	// uid is the object's once it is there.
	uid types.UID
}

// newItem returns an item without content.
func newItem(r resource, namespace, name string, owner *item) *item {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(r.gvr.GroupVersion().String())
	u.SetKind(r.kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{Label: labelValue})
	return &item{resource: r, object: u, owner: owner}
}

func (i *item) labels(pairs map[string]string) *item {
	all := i.object.GetLabels()
	maps.Copy(all, pairs)
	i.object.SetLabels(all)
	return i
}

func (i *item) spec(spec map[string]any) *item {
	i.object.Object["spec"] = spec
	return i
}

func (i *item) finalizer(name string) *item {
	i.object.SetFinalizers([]string{name})
	return i
}

// ref is a reference to the item in the words of Cluster API's v1beta2.
func (i *item) ref() map[string]any {
	return refTo(i.resource, i.object.GetName())
}

func refTo(r resource, name string) map[string]any {
	return map[string]any{"apiGroup": r.gvr.Group, "kind": r.kind, "name": name}
}
