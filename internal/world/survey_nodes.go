// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

const (
	// TopicNodes is what control planes and worker pools want, have and wait for.
	TopicNodes Topic = "the control planes and worker pools"
	// TopicPauses are the objects of workload clusters that nobody reconciles because someone paused them.
	TopicPauses Topic = "which objects are paused"
	// TopicDNS is the CoreDNS of the workload clusters whose control planes are asked about.
	TopicDNS Topic = "the CoreDNS of the workload clusters"
	// TopicNodeChange is what the API server says to the change that is asked for, as a dry run.
	TopicNodeChange Topic = "the API server's answer to the change"
)

// AskNodes narrows what a survey looks into to the clusters and the change that are asked about.
type AskNodes struct {
	// Namespace, Name and Selector choose clusters; what is empty chooses all. Selector is a label selector.
	Namespace, Name, Selector string
	// Version is the Kubernetes version to go to, empty to stay.
	Version string
	// DNSTag is CoreDNS's image tag to go to, empty to stay.
	DNSTag string
	// ControlPlanes tells that control planes are to move, too.
	ControlPlanes bool
}

// Includes tells whether a cluster is asked about. A nil request includes all, and a selector that can't be read none.
func (a *AskNodes) Includes(c *NodeCluster) bool {
	if a == nil {
		return true
	}
	if a.Namespace != "" && a.Namespace != c.Ref.Namespace || a.Name != "" && a.Name != c.Ref.Name {
		return false
	}
	selector, err := labels.Parse(a.Selector)
	return err == nil && selector.Matches(labels.Set(c.Labels))
}

// Nodes are the control planes and worker pools of all clusters.
type Nodes struct {
	// Clusters are sorted by namespace and name.
	Clusters []NodeCluster
	// Hooks are the lifecycle hooks that extensions registered, sorted.
	Hooks []Hook
}

// NodeCluster is one workload cluster with what its nodes come from.
type NodeCluster struct {
	Ref    Ref
	Labels map[string]string
	// Deleting tells that somebody asked for the cluster to go.
	Deleting bool
	// Topology is nil for a cluster without a ClusterClass.
	Topology *Topology
	// ControlPlane is nil where the cluster names none, or none that is there.
	ControlPlane *ControlPlane
	// Pools are sorted by kind and name.
	Pools []Pool
	// DNS is CoreDNS in the cluster itself; nil if it was not looked at.
	DNS *DNS
	// Change is the API server's answer to the change of the topology.
	Change Answer
}

// Key returns namespace/name.
func (c *NodeCluster) Key() string { return c.Ref.Namespace + "/" + c.Ref.Name }

// Answer is what the API server says to a change that is tried as a dry run. The zero value means that it takes it, or
// was not asked.
type Answer struct {
	// Refused is why it would not take it.
	Refused string
	// Silent tells that Refused is no answer at all: a webhook that has to be asked first did not give one.
	Silent bool
}

// Topology is what a ClusterClass makes of a cluster.
type Topology struct {
	Class   string
	Version string
	// Waits is what the topology controller waits for; empty when it is done.
	Waits string
	// Reason is the reason of that condition, and Since when it came about.
	Reason string
	Since  time.Time
	// Hooks are the lifecycle hooks that keep it waiting, with what they last said.
	Hooks []HookWait
}

// HookWait is a lifecycle hook that keeps a topology from moving on.
type HookWait struct {
	Hook string
	// Message is the last that it said.
	Message string
	// Extensions are the names of the ExtensionConfigs that registered it.
	Extensions []string
}

// Hook is one handler that an ExtensionConfig registered.
type Hook struct {
	// Extension is the ExtensionConfig, and Handler the name of its handler.
	Extension Ref
	Handler   string
	Hook      string
	// FailurePolicy is Ignore or Fail, TimeoutSeconds how long one call may take.
	FailurePolicy  string
	TimeoutSeconds int64
	// Namespaces are those of the clusters that it is called for; nil means all.
	Namespaces []string
	// Trouble says why the ExtensionConfig does not work; empty when it does.
	Trouble string
}

// CalledFor tells whether it is called for clusters in a namespace.
func (h Hook) CalledFor(namespace string) bool {
	return h.Namespaces == nil || slices.Contains(h.Namespaces, namespace)
}

// Counts are how many Machines an owner wants and has.
type Counts struct {
	Desired   int64
	Current   int64
	Ready     int64
	Available int64
	UpToDate  int64
	// Known tells that the owner's controller has seen its present spec.
	Known bool
}

// Settled tells that an owner has what it wants, all of it up to date, and nothing more: its roll is finished.
func (c Counts) Settled() bool {
	return c.Known && c.Current == c.Desired && c.UpToDate == c.Desired
}

// Etcd is where a control plane keeps its data.
type Etcd string

const (
	// EtcdStacked is an etcd member on each control plane Machine.
	EtcdStacked Etcd = "stacked"
	// EtcdExternal is an etcd elsewhere.
	EtcdExternal Etcd = "external"
	// EtcdUnknown is a control plane that is not of kubeadm.
	EtcdUnknown Etcd = "unknown"
)

// ControlPlane is what a cluster's control plane wants and has.
type ControlPlane struct {
	Ref Ref
	// Version is what it wants, Reached what its controller says that it has; empty where it does not say.
	Version string
	Reached string
	Counts  Counts
	Etcd    Etcd
	// MaxSurge is how many Machines a roll may make beyond Replicas: "1" where it does not say otherwise.
	MaxSurge string
	// DNS is what it wants of CoreDNS; ImageRepository applies where DNS has no repository.
	DNSRepository, DNSTag, ImageRepository string
	// SkipDNS tells that it leaves CoreDNS alone by annotation.
	SkipDNS bool
	// Configures tells that it has a cluster configuration at all; without one it leaves CoreDNS alone.
	Configures bool
	// Nodes counts its Machines by version, see Pool.Nodes.
	Nodes map[string]int
	// Change is the API server's answer to the change.
	Change Answer
}

// Kubeadm tells whether it is a control plane of kubeadm's provider.
func (c *ControlPlane) Kubeadm() bool { return c.Ref.Kind == "KubeadmControlPlane" }

// Moving tells that it is on its way to another version, or was never there.
func (c *ControlPlane) Moving() bool { return c.Version != "" && c.Reached != c.Version }

// Pool is a MachineDeployment, a MachinePool, or a MachineSet without a MachineDeployment.
type Pool struct {
	Ref    Ref
	Counts Counts
	// Version is what new Machines are to have.
	Version string
	// Bootstrap is what configures new Machines; empty where a Secret does.
	Bootstrap Ref
	// BootstrapVersions are versions that are written into it, by field, which new nodes may get whatever Version says.
	BootstrapVersions map[string]string
	// Autoscaler tells the limits that the cluster autoscaler has, "1 to 5"; empty where it does not scale the pool.
	Autoscaler string
	// Topology tells that a ClusterClass manages it.
	Topology bool
	// Skips are the preflight checks that are left out by annotation.
	Skips []string
	// Preflights are checks that hold back new Machines, as Cluster API says.
	Preflights []Preflight
	// Nodes counts Machines that nobody deletes by the version that their node reports, or where it reports none, by the one
	// that the Machine asks for.
	Nodes map[string]int
	// Change is the API server's answer to the change.
	Change Answer
}

// Kubeadm tells whether its Machines join by kubeadm.
func (p *Pool) Kubeadm() bool {
	return (p.Bootstrap.Kind == "KubeadmConfigTemplate" || p.Bootstrap.Kind == "KubeadmConfig") &&
		group(p.Bootstrap.APIVersion) == "bootstrap.cluster.x-k8s.io"
}

// Total is how many Machines were counted.
func Total(byVersion map[string]int) int {
	n := 0
	for _, k := range byVersion {
		n += k
	}
	return n
}

// Preflight is a check of Cluster API that holds back a MachineSet's new Machines.
type Preflight struct {
	// Set is the MachineSet.
	Set Ref
	// Check is its name, ControlPlaneIsStable for example; empty if Cluster API does not tell.
	Check string
	// Message is what it waits for, in Cluster API's words.
	Message string
	// Since is since when; zero if that is not known.
	Since time.Time
}

// Pause is one object that is not reconciled because somebody paused it.
type Pause struct {
	// Cluster is namespace/name of the cluster that it belongs to.
	Cluster string
	Object  Ref
	// Where is the field or annotation that pauses it.
	Where string
	// Value is the annotation's value.
	Value string
	// Run is the run of Capstan that set it; empty if none did.
	Run string
	// By is the field manager that set it, and At when; empty if that is not recorded.
	By string
	At time.Time
}

// DNS is CoreDNS as it runs in a workload cluster.
type DNS struct {
	// Failed says why it could not be looked at.
	Failed string
	// Absent tells that the cluster has no CoreDNS, or one that does not look like kubeadm's.
	Absent bool
	// Image is the image of the container coredns, and Corefile its configuration.
	Image    string
	Corefile string
}
