// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of an Upgrade.
const (
	// ConditionSucceeded is True when the run ended at its target, False when it ended or stopped elsewhere, Unknown while it runs.
	ConditionSucceeded = "Succeeded"
	// ConditionProgressing is True while the run moves.
	ConditionProgressing = "Progressing"
	// ConditionStalled is True when the run stopped and a person has to decide.
	ConditionStalled = "Stalled"
)

// Reasons of the Succeeded condition.
const (
	// ReasonCompleted means that every component is at its target.
	ReasonCompleted = "Completed"
	// ReasonInProgress means that the run goes on.
	ReasonInProgress = "InProgress"
	// ReasonStopped means that the run holds because of a fault; resume goes on.
	ReasonStopped = "Stopped"
	// ReasonPaused means that the operator holds the run.
	ReasonPaused = "Paused"
	// ReasonAborted means that the operator ended the run.
	ReasonAborted = "Aborted"
	// ReasonFenceViolated means that a workload cluster changed although nobody asked for it.
	ReasonFenceViolated = "FenceViolated"
	// ReasonSuperseded means that a later run took over from where this one stopped.
	ReasonSuperseded = "Superseded"
)

// Reasons of a Stop: causes in the operator's words. They are stable.
const (
	// StopImageNotFound means that the node can't pull an image.
	StopImageNotFound = "ImageNotFound"
	// StopUnschedulable means that no node has room for a Pod.
	StopUnschedulable = "Unschedulable"
	// StopCrashing means that a container exits again and again.
	StopCrashing = "Crashing"
	// StopOutOfMemory means that a container was killed for its memory.
	StopOutOfMemory = "OutOfMemory"
	// StopConfigMissing means that a Pod waits for a Secret or ConfigMap.
	StopConfigMissing = "ConfigMissing"
	// StopWebhookSilent means that a webhook or conversion does not answer.
	StopWebhookSilent = "WebhookSilent"
	// StopRejected means that the API server refused a change.
	StopRejected = "Rejected"
	// StopNotReady means that something did not become ready, and nothing says why.
	StopNotReady = "NotReady"
	// StopContested means that somebody else undoes what the run does.
	StopContested = "Contested"
	// StopPoolGone means that the control plane or MachineDeployment of a roll is not there any more.
	StopPoolGone = "PoolGone"
	// StopImageMismatch means that a new node runs something else than the image's catalog entry says.
	StopImageMismatch = "ImageMismatch"
	// StopReplicasChanged means that somebody changed the number of Machines in the midst of a roll.
	StopReplicasChanged = "ReplicasChanged"
	// StopClusterSilent means that the workload cluster's API server does not answer.
	StopClusterSilent = "ClusterSilent"
	// StopHostFailed means that a bare-metal host reports an error.
	StopHostFailed = "HostFailed"
	// StopNoHost means that a new Machine has no host to go to.
	StopNoHost = "NoHost"
	// StopDrainBlocked means that a node can't be drained.
	StopDrainBlocked = "DrainBlocked"
	// StopVolumeAttached means that volumes of a drained node are not detached.
	StopVolumeAttached = "VolumeAttached"
	// StopMachineWaits means that a Machine that comes or goes waits for something.
	StopMachineWaits = "MachineWaits"
	// StopMachineUnhealthy means that a Machine that has to stay does not work.
	StopMachineUnhealthy = "MachineUnhealthy"
	// StopFenceViolated means that a workload cluster changed although nobody asked for it.
	StopFenceViolated = "FenceViolated"
)
