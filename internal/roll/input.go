// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// Cluster is a workload cluster as a roll sees it.
type Cluster struct {
	Ref world.Ref
	// Topology tells that a ClusterClass makes its pools; Class is its name.
	Topology bool
	Class    string
	// Pools are its control plane and its MachineDeployments.
	Pools []Pool
	// HealthChecks are the MachineHealthChecks of the cluster.
	HealthChecks []HealthCheck
	// Hosts are the bare-metal hosts that its pools might get: those of its namespace, and others so that people can be told
	// why they do not count. Nil where there are none.
	Hosts []world.BareHost
}

// Key returns namespace/name.
func (c *Cluster) Key() string { return c.Ref.Namespace + "/" + c.Ref.Name }

// Pool is an owner of Machines.
type Pool struct {
	Ref          world.Ref
	ControlPlane bool
	// Topology tells that a ClusterClass manages it.
	Topology bool
	// Paused says what pauses it, a field or an annotation; empty for nothing.
	Paused string
	Counts world.Counts
	// Etcd is where a control plane keeps its data.
	Etcd world.Etcd
	// Template is the infrastructure machine template, nil if it is gone; TemplateName what the owner calls it.
	Template     *unstructured.Unstructured
	TemplateName string
	// TemplateRef is the path of the field that holds the template's name, parts joined by dots.
	TemplateRef string
	// Version is the Kubernetes version that it asks for, VersionPath where.
	Version, VersionPath string
	// OnDelete tells that Machines are replaced only after somebody deleted them.
	OnDelete bool
	// MaxSurge and MaxUnavailable are the fields of its strategy; MaxUnavailable has no path for a control plane.
	MaxSurge, MaxUnavailable Setting
	// Autoscaler tells the limits that the cluster autoscaler has, "1 to 5"; empty where it does not scale the pool.
	Autoscaler string
	// Machines are those that it has.
	Machines []world.RolledMachine
}

// Setting is a field as it is.
type Setting struct {
	Path []string
	// Value is the value as JSON, empty where the field is absent.
	Value string
}

// HealthCheck is a MachineHealthCheck that may ask for Machines to be replaced.
type HealthCheck struct {
	Ref world.Ref
	// Pools are the names of the owners whose Machines it selects, with their kind: "MachineDeployment md-0".
	Pools []string
	// StartupSeconds is how long a Machine may take to become a node; 0 means that this is not checked.
	StartupSeconds int64
	// Paused tells that it has the annotation cluster.x-k8s.io/paused; Before is the annotation's value as JSON.
	Paused bool
	Before string
}
