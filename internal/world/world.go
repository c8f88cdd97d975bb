// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package world is what Capstan knows of a fleet at one moment, as plain data. Decisions read it; they have no other
// source. It holds no client: package live fills it.
package world

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// World is one consistent picture of a management cluster and its fleet.
type World struct {
	// At is when it was observed.
	At time.Time
	// Management is the management cluster itself.
	Management Management
	// Clusters are the workload clusters, sorted by namespace and name. They are shared between observations: read only.
	Clusters []Cluster
	// FleetAt is when Clusters were read, at most a little before At; see FleetError.
	FleetAt time.Time
	// FleetError says why Clusters could not be read anew and are as of FleetAt: a conversion webhook does not answer.
	// While it is set, a missing Machine proves nothing.
	FleetError string
	// Sets are the observed states of the object sets that were asked for, by set ID.
	Sets map[string]Set
	// Survey is what only a plan asks about; nil in a run.
	Survey *Survey
}

// Management is the management cluster.
type Management struct {
	// UID is the UID of the kube-system namespace.
	UID string
	// KubernetesVersion is the API server's version, with the leading v.
	KubernetesVersion string
	// ClusterAPIVersion is the apiVersion that Clusters and Machines were read at, empty without Cluster API.
	ClusterAPIVersion string
	// Nodes are the management cluster's own nodes.
	Nodes []Node
	// Providers is the clusterctl inventory.
	Providers []Provider
	// Manifests are the components of type manifest that Capstan or clusterctl recorded on their objects.
	Manifests []Manifest
	// Inventory tells whether the clusterctl inventory exists at all.
	Inventory bool
}

// Node is one node of the management cluster.
type Node struct {
	Name  string
	Ready bool
	// AllocatableMemory is in bytes.
	AllocatableMemory int64
	// AllocatableCPU is in thousandths of a core.
	AllocatableCPU int64
}

// Provider is one entry of the clusterctl inventory.
type Provider struct {
	// ManifestLabel is the value of the label cluster.x-k8s.io/provider, "infrastructure-docker" for example.
	ManifestLabel string
	Name          string
	Type          string
	Namespace     string
	Version       string
	// WatchedNamespace is set when the instance watches one namespace only.
	WatchedNamespace string
}

// Manifest is an installed component of type manifest.
type Manifest struct {
	Name    string
	Version string
	// RecordedBy is "capstan" or "clusterctl".
	RecordedBy string
}

// Ref identifies a Kubernetes object.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns "Kind namespace/name", or "Kind name" for a cluster-scoped object.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Same tells whether two references name the same object, whichever version of its API group each was read in.
func (r Ref) Same(o Ref) bool {
	return r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name && group(r.APIVersion) == group(o.APIVersion)
}

func group(apiVersion string) string {
	g, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return g
}

// HoldsSettings tells whether people change single fields of such an object to run a controller their way.
func HoldsSettings(u *unstructured.Unstructured) bool {
	switch u.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet":
		return group(u.GetAPIVersion()) == "apps"
	case "ConfigMap", "Secret":
		return u.GetAPIVersion() == "v1"
	}
	return false
}

// RefOf returns the reference of an object.
func RefOf(u *unstructured.Unstructured) Ref {
	return Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// Presence is what a set asks of an object.
type Presence string

const (
	// Present asks for the object to be there with the given content.
	Present Presence = "Present"
	// Absent asks for the object to be gone.
	Absent Presence = "Absent"
	// Quiet asks for a Deployment to have no Pods; an absent Deployment is quiet. Found then tells that Pods are there,
	// InSync that zero replicas are asked for.
	Quiet Presence = "Quiet"
)

// Wanted is one object that a set asks for.
type Wanted struct {
	// Presence says what is asked.
	Presence Presence
	// Object is the content for Present; for Absent and Quiet only its identity counts.
	Object *unstructured.Unstructured
}

// Want is a set of objects that a step is about, with the depth to which they are observed.
type Want struct {
	// ID is the set's ID: the ID of the step that it belongs to.
	ID string
	// Objects are asked for in this order.
	Objects []Wanted
	// Lead asks whether one of each Deployment's Pods leads, as part of its health.
	Lead bool
	// Probe asks for a real call through every webhook and conversion among the objects.
	Probe bool
	// Owned is the label, as "key=value", of all objects of a component, of any kind. What has it and Objects does not name
	// is reported as a leftover. Empty: no leftovers are looked for. Costly: used for plans only.
	Owned string
	// Fleet asks that Clusters and Machines are read anew, however short ago that was done.
	Fleet bool
	// Content asks for the live objects themselves, not only their state. Used for plans only.
	Content bool
	// Migrate are resources whose stored objects are gone through.
	Migrate []v1alpha1.Migration
	// Pools are owners of Machines whose nodes are rolled.
	Pools []WantPool
	// Diff asks for all that is needed to show a difference: live objects in full, also those to be gone, and what an
	// apply would make of each. It includes Content. Costly in memory: used where a person asks for it.
	Diff bool
}

// Set is the observed state of a Want.
type Set struct {
	// Objects are in the order of the Want.
	Objects []Object
	// Migrating are the resources of the Want's Migrate, in its order.
	Migrating []Migrating
	// Pools are in the order of the Want's Pools.
	Pools []PoolState
	// Leftovers are those that have the Want's Owned label and are not named by it, sorted.
	Leftovers []Ref
}

// Object is the observed state of one wanted object.
type Object struct {
	Ref Ref
	// Presence is what was asked.
	Presence Presence
	// Found tells whether the object exists. For Quiet it tells whether the Deployment has Pods or may still get some.
	Found bool
	// Unserved tells that the API server does not know the kind (yet).
	Unserved bool
	// Terminating tells that it is being deleted.
	Terminating bool
	// Held says in one line what a terminating object waits for: its finalizers, or what is left in a namespace.
	Held string
	// InSync tells that a server-side apply of the wanted content would change nothing, and that no field is left in the
	// hands of an installer. For Quiet it tells that the Deployment was asked to have no replicas.
	InSync bool
	// Drift says in one line what differs, when InSync is false and the object was found.
	Drift string
	// Cosmetic tells that only labels, annotations or the ownership of fields differ, so that the object already works
	// as wanted.
	Cosmetic bool
	// Change identifies all that an apply would change in a found object, whatever else is in it; empty for nothing.
	Change string
	// Live is the object as found, without managedFields; only when the Want asked for Content. Schemas of CRDs are left out
	// unless it asked for Diff.
	Live *unstructured.Unstructured
	// Result is what the API server would make of the wanted content, nil where it was not asked for or does not say. With
	// Content it is kept of the kinds whose settings people change (see HoldsSettings), with Diff of all.
	Result *unstructured.Unstructured
	// Managed says whose fields are whose in Live; kept of the same kinds as Result.
	Managed []metav1.ManagedFieldsEntry
	// Immutable tells that the API server would refuse the change in place and the object has to be replaced.
	Immutable bool
	// Refused is the API server's answer when it would not take the object for another reason.
	Refused string
	// Silent tells that Refused is no answer at all: a webhook that has to be asked first did not give one.
	Silent bool
	// Stored tells that the API server refuses it for nothing but versions that objects may be stored in.
	Stored bool
	// Conflicts are fields that the wanted content does without and that stay, and make it invalid, as others own them. An
	// apply has to take them away first.
	Conflicts []FieldConflict
	// Health says whether the object works; nil where that has no meaning for the kind.
	Health *Health
}

// Health is whether a thing works, and if not, why.
type Health struct {
	// OK tells that it works at its current spec: generation observed, replicas updated and available, webhooks answering.
	OK bool
	// Message says in one line what is being waited for.
	Message string
	// Progress is a number that changes whenever things move; it has no other meaning.
	Progress int64
	// Causes name what is wrong, definite ones first.
	Causes []Cause
	// Handover is a lease that a Pod which is gone for good still holds, so that its successor waits for nothing.
	Handover *Handover
}

// Handover is a leader election lease whose holder does not exist any more.
type Handover struct {
	// Lease is the lease.
	Lease Ref
	// ResourceVersion is the lease's as it was judged: it must not have changed since.
	ResourceVersion string
	// Holder is the identity that holds it.
	Holder string
}

// Cause is one named reason why something does not work.
type Cause struct {
	// Reason is a stop reason of the API package, ImageNotFound for example.
	Reason string
	// Message is one sentence in the operator's words: which Pod, which image, which node.
	Message string
	// Remedy is what to do.
	Remedy string
	// Object is what to look at.
	Object Ref
	// Made is when Object was created; zero if that is not known.
	Made time.Time
	// Definite tells that waiting alone will most likely not help.
	Definite bool
}
