// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RollStrategy says which comes first when a Machine is replaced.
//
// +kubebuilder:validation:Enum=Surge;ScaleIn
type RollStrategy string

const (
	// StrategySurge makes the new Machine before the old one goes: it needs a standby host.
	StrategySurge RollStrategy = "Surge"
	// StrategyScaleIn takes the old Machine away first, and makes the new one in its place.
	StrategyScaleIn RollStrategy = "ScaleIn"
)

// PlannedPool is one owner of Machines whose image changes: a control plane or a MachineDeployment.
type PlannedPool struct {
	// cluster is the Cluster as namespace/name.
	Cluster string `json:"cluster"`
	// owner is the KubeadmControlPlane or MachineDeployment.
	Owner ObjectReference `json:"owner"`
	// controlPlane tells that its Machines are the cluster's control plane.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`
	// replicas is how many Machines it wants.
	Replicas int64 `json:"replicas"`
	// oldTemplate is the infrastructure machine template that it has.
	OldTemplate ObjectReference `json:"oldTemplate"`
	// newTemplate is the one that it gets. Its name ends in a hash of its content.
	NewTemplate ObjectReference `json:"newTemplate"`
	// templateRef is the path of the owner's field that names the template, "spec.template.spec.infrastructureRef.name" for
	// example.
	TemplateRef string `json:"templateRef"`
	// artifact is the digest of the new template's manifest.
	Artifact string `json:"artifact"`
	// strategy is Surge or ScaleIn.
	Strategy RollStrategy `json:"strategy"`
	// why says in one line why the strategy was chosen.
	// +optional
	Why string `json:"why,omitempty"`
	// settings are fields that have another value during the roll, and the old one again at its end.
	// +optional
	Settings []RollSetting `json:"settings,omitempty"`
	// fromVersion and toVersion are Kubernetes versions; the same where only the image changes.
	// +optional
	FromVersion string `json:"fromVersion,omitempty"`
	// +optional
	ToVersion string `json:"toVersion,omitempty"`
	// versionPath is the path of the owner's field that holds the Kubernetes version.
	// +optional
	VersionPath string `json:"versionPath,omitempty"`
	// expect is what each new node has to report.
	// +optional
	Expect NodeImageContents `json:"expect,omitempty"`
	// needs are the owners, as kind/namespace/name, whose rolls come first.
	// +optional
	Needs []string `json:"needs,omitempty"`
}

// RollSetting is one field that a roll sets and puts back.
type RollSetting struct {
	// object is whose field it is.
	Object ObjectReference `json:"object"`
	// path is the field, its parts in order; annotations are [metadata annotations NAME].
	Path []string `json:"path"`
	// before is the value as JSON, empty where the field was absent.
	// +optional
	Before string `json:"before,omitempty"`
	// during is the value as JSON.
	During string `json:"during"`
	// why says what it is for.
	// +optional
	Why string `json:"why,omitempty"`
}
