// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"
)

// Cluster is one workload cluster as the management cluster sees it.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Paused    bool   `json:"paused,omitempty"`
	// SpecPaused is what spec.paused says, empty for nothing.
	SpecPaused string `json:"-"`
	// PausedBy is the run that paused it because of an unrequested change, and HeldFor the run that pauses it while
	// components move; empty if none does. PausedBefore is what spec.paused said before either, "absent" for nothing.
	PausedBy     string `json:"-"`
	HeldFor      string `json:"-"`
	PausedBefore string `json:"-"`
	// ResourceVersion is of the reading.
	ResourceVersion string `json:"-"`
	// Deleting tells that somebody asked for the cluster to go.
	Deleting bool `json:"deleting,omitempty"`
	// Version is the control plane's Kubernetes version.
	Version string `json:"version,omitempty"`
	// TopologyVersion is the version that the cluster's topology asks for; the control plane may not have been told yet.
	TopologyVersion string `json:"topologyVersion,omitempty"`
	// Owners are the objects that create Machines: control planes, MachineDeployments, MachinePools.
	Owners []Owner `json:"owners,omitempty"`
	// Machines are sorted by name.
	Machines []Machine `json:"machines,omitempty"`
}

// Owner is an object that creates Machines, with the fields that decide what they look like.
type Owner struct {
	Ref Ref    `json:"ref"`
	UID string `json:"uid"`
	// Replicas is how many Machines it wants.
	Replicas int64 `json:"replicas"`
	// Template are the fields that cause Machines to be replaced when they change, as path and value.
	Template map[string]string `json:"template,omitempty"`
	// Deleting tells that somebody asked for it to go.
	Deleting bool `json:"deleting,omitempty"`
	// Config holds all other fields that may replace Machines, as path and a hash of the value. They are the words of the
	// API version Read, and mean nothing beside those of another.
	Config map[string]string `json:"config,omitempty"`
	Read   string            `json:"read,omitempty"`
	// Generation counts the changes of its spec: a field that reads otherwise without one was only converted otherwise.
	Generation int64 `json:"generation,omitempty"`
}

// Machine is one Machine.
type Machine struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Owner is the Owner that it goes back to, through its MachineSet where there is one.
	Owner    Ref    `json:"owner"`
	Version  string `json:"version,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	// Remediated tells that a MachineHealthCheck asked for its replacement.
	Remediated bool `json:"remediated,omitempty"`
}

// Probe is the count of calls to one workload cluster's API server since some moment.
type Probe struct {
	// Cluster is namespace/name.
	Cluster string
	Total   int64
	Failed  int64
	// LongestGap is the longest time without an answer.
	LongestGap time.Duration
	// Gaps are the times without an answer, oldest first; bounded.
	Gaps []Gap
	// Earlier are gaps that other processes of the same run saw, in words.
	Earlier []string
	// LastError is the last failed call's error, empty if none failed.
	LastError string
}

// Gap is one time without an answer.
type Gap struct {
	From  time.Time
	To    time.Time
	Error string
}

// String says when there was no answer, for how long, and why.
func (g Gap) String() string {
	return fmt.Sprintf("%s for %s: %s", g.From.UTC().Format(time.RFC3339), g.To.Sub(g.From).Round(time.Millisecond), g.Error)
}

// Key returns namespace/name.
func (c *Cluster) Key() string { return c.Namespace + "/" + c.Name }
