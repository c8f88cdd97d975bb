// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// TopicPools are the owners of the chosen clusters' Machines with all that a roll of their nodes depends on.
const TopicPools Topic = "the hosts, machine templates and health checks of the pools"

// PoolSurvey is what a plan to roll nodes asks about the chosen clusters.
type PoolSurvey struct {
	// Clusters are sorted by namespace and name.
	Clusters []PoolCluster
}

// PoolCluster is one workload cluster.
type PoolCluster struct {
	// Key is namespace/name.
	Key string
	Ref Ref
	// Class is the ClusterClass that makes it; empty for none.
	Class string
	// Owners are its control plane and then its MachineDeployments, by name.
	Owners []PoolOwner
	// Checks are the MachineHealthChecks for it, sorted by name.
	Checks []HealthCheck
	// Hosts are all bare-metal hosts of its namespace, sorted by name; nil where that kind is not served.
	Hosts []BareHost
}

// PoolOwner is a control plane or a MachineDeployment.
type PoolOwner struct {
	Ref Ref
	// ControlPlane tells it from a pool of workers.
	ControlPlane bool
	Replicas     int64
	Counts       Counts
	// Etcd is where a control plane keeps its data; empty for workers.
	Etcd Etcd
	// Version is the Kubernetes version that its Machines are to have, VersionPath the dotted path of that field.
	Version, VersionPath string
	// Template is the infrastructure machine template, without managedFields; nil if it names none or none that is there.
	Template *unstructured.Unstructured
	// TemplateName is what the owner calls the template, TemplateRef the dotted path of the field that does.
	TemplateName, TemplateRef string
	// MaxSurge and MaxUnavailable say how a roll may deviate from Replicas. MaxUnavailable has no path for a control plane.
	MaxSurge, MaxUnavailable Setting
	// StrategyType is "RollingUpdate" where the owner says nothing; OnDelete tells that Machines are replaced only once
	// somebody deletes them.
	StrategyType string
	OnDelete     bool
	// Paused tells that the owner's controller leaves it alone, PausedBy the field or annotation that says so.
	Paused   bool
	PausedBy string
	// LeftPaused tells that an aborted roll of Capstan paused it, and nothing else does: the next roll may go on with it.
	LeftPaused bool
	// Autoscaler tells the limits that the cluster autoscaler has, "1 to 5"; empty where it does not scale the pool.
	Autoscaler string
	// DrainTimeout is how long a drain may take, "10m0s"; empty for as long as it needs.
	DrainTimeout string
	// Topology tells that a ClusterClass manages it.
	Topology bool
	// Machines are those that go back to it, sorted by name.
	Machines []RolledMachine
}

// Setting is a field of an owner, in the words of the API version that it was read in.
type Setting struct {
	// Path leads to the field whether it is there or not.
	Path []string
	// Value is its value as JSON; empty if it is absent.
	Value string
}

// HealthCheck is a MachineHealthCheck that watches Machines of the cluster.
type HealthCheck struct {
	Ref Ref
	// Pools are the owners some of whose Machines it selects, with their kind, "MachineDeployment md-0", sorted.
	Pools []string
	// StartupSeconds is how long a Machine may take to get a node before it is replaced; 0 means that this is not checked.
	StartupSeconds int64
	// Paused tells that it has the annotation that pauses it, and Before is that annotation's value as JSON.
	Paused bool
	Before string
}
