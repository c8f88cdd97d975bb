// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// Labels and annotations of Cluster API's contract.
const (
	clusterLabel          = "cluster.x-k8s.io/cluster-name"
	controlPlaneLabel     = "cluster.x-k8s.io/control-plane"
	controlPlaneNameLabel = "cluster.x-k8s.io/control-plane-name"
	deploymentLabel       = "cluster.x-k8s.io/deployment-name"
	setLabel              = "cluster.x-k8s.io/set-name"
	poolLabel             = "cluster.x-k8s.io/pool-name"
	pausedAnnotation      = "cluster.x-k8s.io/paused"
	remediateAnnotation   = "cluster.x-k8s.io/remediate-machine"
)

// objectKey is the name of an object of a known kind.
type objectKey struct {
	kind            schema.GroupKind
	namespace, name string
}

func keyOf(u *unstructured.Unstructured) objectKey {
	return objectKey{kind: u.GroupVersionKind().GroupKind(), namespace: u.GetNamespace(), name: u.GetName()}
}

// bareCluster is a Cluster without its owners and Machines.
type bareCluster struct {
	world.Cluster

	apiVersion string
	// controlPlane is what the Cluster names as its control plane; the zero value if it names none.
	controlPlane objectKey
}

// ownerPart is an owner of Machines with what it is found by.
type ownerPart struct {
	world.Owner

	key objectKey
	// cluster is namespace/name of the Cluster of workers; empty for control planes, which Clusters name themselves.
	cluster string
}

// assemble puts the picture of the fleet together, sorted.
func assemble(p fleetParts) []world.Cluster {
	controlPlanes := map[objectKey]world.Owner{}
	for _, o := range p.controlPlanes {
		controlPlanes[o.key] = o.Owner
	}
	owners := map[string][]world.Owner{}
	for _, o := range slices.Concat(p.workers...) {
		owners[o.cluster] = append(owners[o.cluster], o.Owner)
	}
	machines := map[string][]machine{}
	for _, m := range p.machines {
		machines[m.cluster] = append(machines[m.cluster], m)
	}
	var out []world.Cluster
	for i := range p.clusters {
		c := &p.clusters[i]
		controlPlane, found := controlPlanes[c.controlPlane]
		if found {
			c.Owners = append(c.Owners, controlPlane)
			c.Version = cmp.Or(controlPlane.Template["spec.version"], c.Version)
		}
		c.Owners = append(c.Owners, owners[c.Key()]...)
		slices.SortStableFunc(c.Owners, func(a, b world.Owner) int {
			return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
		})
		for _, m := range machines[c.Key()] {
			c.Machines = append(c.Machines, m.in(c.apiVersion, controlPlane.Ref))
		}
		slices.SortFunc(c.Machines, func(a, b world.Machine) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, c.Cluster)
	}
	slices.SortFunc(out, func(a, b world.Cluster) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func bareClusterOf(u *unstructured.Unstructured) bareCluster {
	annotations := u.GetAnnotations()
	_, annotated := annotations[pausedAnnotation]
	c := bareCluster{apiVersion: u.GetAPIVersion(), Cluster: world.Cluster{
		Namespace:  u.GetNamespace(),
		Name:       u.GetName(),
		UID:        string(u.GetUID()),
		Paused:     annotated || boolAt(u, "spec", "paused"),
		Deleting:   u.GetDeletionTimestamp() != nil,
		SpecPaused: specPaused(u), PausedBy: annotations[v1alpha1.PausedByAnnotation], HeldFor: annotations[v1alpha1.HeldForAnnotation],
		PausedBefore: annotations[v1alpha1.PausedBeforeAnnotation], ResourceVersion: u.GetResourceVersion(),
		Version: stringAt(u, "spec", "topology", "version"),

		TopologyVersion: stringAt(u, "spec", "topology", "version"),
	}}
	if key, named := controlPlaneOf(u); named {
		c.controlPlane = key
	}
	return c
}

// controlPlaneOf returns the control plane that a Cluster names, in the words of either version: v1beta2 has apiGroup,
// v1beta1 apiVersion.
func controlPlaneOf(cluster *unstructured.Unstructured) (objectKey, bool) {
	name := stringAt(cluster, "spec", "controlPlaneRef", "name")
	group := stringAt(cluster, "spec", "controlPlaneRef", "apiGroup")
	if group == "" {
		gv, err := schema.ParseGroupVersion(stringAt(cluster, "spec", "controlPlaneRef", "apiVersion"))
		if err != nil {
			return objectKey{}, false
		}
		group = gv.Group
	}
	kind := schema.GroupKind{Group: group, Kind: stringAt(cluster, "spec", "controlPlaneRef", "kind")}
	return objectKey{kind: kind, namespace: cluster.GetNamespace(), name: name}, name != "" && kind.Kind != ""
}

// controlPlaneOwner reads a control plane of any kind. What else makes it replace Machines, the kubeadm configuration for
// one, is kept apart: a conversion may write it differently without any change of meaning.
func controlPlaneOwner(u *unstructured.Unstructured) ownerPart {
	o := ownerOf(u)
	o.put("spec.version", stringAt(u, "spec", "version"))
	o.put("spec.machineTemplate.spec.infrastructureRef.name",
		cmp.Or(stringAt(u, "spec", "machineTemplate", "spec", "infrastructureRef", "name"), stringAt(u, "spec", "machineTemplate", "infrastructureRef", "name")))
	o.put("spec.rollout.after", cmp.Or(stringAt(u, "spec", "rollout", "after"), stringAt(u, "spec", "rolloutAfter")))
	o.Config = controlPlaneConfig(u)
	return ownerPart{Owner: o.Owner, key: keyOf(u)}
}

// workerOwner reads a MachineDeployment, MachinePool or MachineSet.
func workerOwner(u *unstructured.Unstructured) ownerPart {
	o := ownerOf(u)
	template := func(path ...string) string {
		return stringAt(u, append([]string{"spec", "template", "spec"}, path...)...)
	}
	o.put("spec.template.spec.version", template("version"))
	o.put("spec.template.spec.infrastructureRef.name", template("infrastructureRef", "name"))
	o.put("spec.template.spec.bootstrap.configRef.name", template("bootstrap", "configRef", "name"))
	o.put("spec.template.spec.bootstrap.dataSecretName", template("bootstrap", "dataSecretName"))
	o.put("spec.template.spec.failureDomain", template("failureDomain"))
	o.put("spec.rollout.after", cmp.Or(stringAt(u, "spec", "rollout", "after"), stringAt(u, "spec", "rolloutAfter")))
	o.Config = workerConfig(u)
	part := ownerPart{Owner: o.Owner, key: keyOf(u)}
	if cluster := cmp.Or(stringAt(u, "spec", "clusterName"), u.GetLabels()[clusterLabel]); cluster != "" {
		part.cluster = u.GetNamespace() + "/" + cluster
	}
	return part
}

// ownerBuilder puts the fields of a template together. Paths are v1beta2's whichever version is read, so that a change
// of version is no change of a template.
type ownerBuilder struct{ world.Owner }

func ownerOf(u *unstructured.Unstructured) ownerBuilder {
	replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return ownerBuilder{world.Owner{
		Ref: world.RefOf(u), UID: string(u.GetUID()), Replicas: replicas, Deleting: u.GetDeletionTimestamp() != nil,
		Template: map[string]string{},
		Read:     fmt.Sprint(u.Object[readAs]), Generation: u.GetGeneration(),
	}}
}

func (o ownerBuilder) put(path, value string) {
	if value != "" {
		o.Template[path] = value
	}
}

func stringAt(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

func boolAt(u *unstructured.Unstructured, path ...string) bool {
	b, _, _ := unstructured.NestedBool(u.Object, path...)
	return b
}
