// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

const (
	// TopicRollouts is which owners of Machines are replacing, adding or removing some.
	TopicRollouts Topic = "the rollouts of the workload clusters"
	// TopicHosts is which workload clusters answer, and which of them is the management cluster itself.
	TopicHosts Topic = "which workload clusters answer, and whether one is the management cluster itself"
	// TopicJoins is what control plane Machines were configured to join with.
	TopicJoins Topic = "the kubeadm configurations of the control plane Machines"
	// TopicTemplates is whether each MachineDeployment has a MachineSet of its own template.
	TopicTemplates Topic = "the templates of the MachineDeployments"
)

// Fleet is what only a plan asks about the workload clusters.
type Fleet struct {
	// Rollouts are the owners of Machines with how far they are, sorted by cluster and owner.
	Rollouts []Rollout
	// Machines are those that are not simply running at what their owner wants, sorted.
	Machines []MachineState
	// Hosts are the workload clusters with how they answered, sorted.
	Hosts []Host
	// Joins are the configurations of the control plane Machines that lack the section for joining, sorted.
	Joins []Join
	// Pairs are the MachineDeployments with their MachineSets, sorted.
	Pairs []TemplatePair
}

// Rollout is how far an owner of Machines is. A nil count is one that nobody says.
type Rollout struct {
	// Cluster is namespace/name.
	Cluster string
	Owner   Ref
	// Desired is what it wants, Current what it has, UpToDate how many of these are as it wants them.
	Desired, Current, UpToDate *int64
	// Version is the Kubernetes version that it wants.
	Version string
	// Infrastructure is the template that it makes infrastructure from.
	Infrastructure Ref
	// Doing are the conditions that say that it is at work: RollingOut, ScalingUp.
	Doing []Condition
	// ActiveSets are the MachineSets of a MachineDeployment that have or want Machines, sorted.
	ActiveSets []string
	// OnDelete tells that it leaves old Machines alone until a person deletes them.
	OnDelete bool
	// Elsewhere tells that somebody else decides how many Machines there are.
	Elsewhere bool
	// Unseen tells that its controller has yet to look at its present spec.
	Unseen bool
	// Paused tells that nobody reconciles it, for a reason of its own: not because its cluster is paused.
	Paused bool
	// Deleting tells that somebody asked for it to go.
	Deleting bool
}

// Condition is a condition that is true.
type Condition struct {
	Type    string
	Message string
}

// MachineState is a Machine that is coming, going, or not what its owner wants.
type MachineState struct {
	// Cluster is namespace/name.
	Cluster  string
	Name     string
	UID      string
	Deleting bool
	// Phase is Cluster API's word; empty if nobody has looked at the Machine yet.
	Phase string
	// Outdated is its controller's word for what is not as its owner wants it; empty if nothing is.
	Outdated string
}

// Host is one workload cluster as a place where things run.
type Host struct {
	// Cluster is namespace/name.
	Cluster string
	// Asked tells that there was something to call it with, and time to do so.
	Asked bool
	// Failed says why it did not answer; empty if it did or was not asked.
	Failed string
	// Managing tells that it is the management cluster, and by which fact that is known.
	Managing string
	// Nodes counts the nodes of the management cluster that its Machines are.
	Nodes int
	// Clones are the Machines of its control plane that were made from another infrastructure template than the present one,
	// with that template's name. Only the management cluster itself is asked.
	Clones map[string]string
}

// Join is the kubeadm configuration of a control plane Machine that joined, without spec.joinConfiguration.controlPlane.
type Join struct {
	// Cluster is namespace/name.
	Cluster string
	Config  Ref
	// Machine is the Machine that it configured.
	Machine string
	// Owner is the control plane.
	Owner Ref
	// Arguments tells that it has arguments for the kubelet in that section, by which later releases know it all the same.
	Arguments bool
}

// TemplatePair is a MachineDeployment with what it would do with its MachineSets.
type TemplatePair struct {
	// Cluster is namespace/name.
	Cluster    string
	Deployment Ref
	// Newest is the MachineSet that has its Machines.
	Newest Ref
	// Machines is how many Machines would be replaced.
	Machines int64
	// Differs are the fields of the template that are not the same, each with both values, sorted. None: nothing would roll.
	Differs []string
	// Refused is why a scale of it would be refused; empty if it would not or nobody tried.
	Refused string
}

// FleetOf returns what a survey found of the fleet, never nil.
func (s *Survey) FleetOf() *Fleet {
	if s == nil || s.Fleet == nil {
		return &Fleet{}
	}
	return s.Fleet
}
