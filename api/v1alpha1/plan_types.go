// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlanKind says what a plan upgrades.
//
// +kubebuilder:validation:Enum=Platform;Nodes
type PlanKind string

const (
	// PlanPlatform moves the management cluster's own components.
	PlanPlatform PlanKind = "Platform"
	// PlanNodes rolls a node image.
	PlanNodes PlanKind = "Nodes"
)

// Plan is what a run will do, decided before anything is touched. It never changes after creation.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=capstan
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=".spec.kind"
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=".spec.release.name"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Plan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a plan never changes: make a new one"
	Spec PlanSpec `json:"spec"`
}

// PlanSpec is the content of a plan.
type PlanSpec struct {
	// kind is Platform or Nodes.
	Kind PlanKind `json:"kind"`
	// release is the target. Of a Nodes plan it names the image: name and version are the NodeImage's name, digest is the
	// sha256 over its spec.
	Release ReleaseReference `json:"release"`
	// base holds the facts the plan was made from; the run refuses when they no longer hold.
	Base Base `json:"base"`
	// components are the parts of the release, each with what will happen to it.
	// +optional
	Components []PlannedComponent `json:"components,omitempty"`
	// pools are the owners of Machines that a Nodes plan rolls, in order.
	// +optional
	Pools []PlannedPool `json:"pools,omitempty"`
	// steps are in an order that respects every need; steps whose needs are met may run side by side.
	// +optional
	Steps []PlannedStep `json:"steps,omitempty"`
	// findings are the results of all checks.
	// +optional
	Findings []Finding `json:"findings,omitempty"`
	// contracts tells which Cluster API contracts each provider will speak, the core provider first.
	// +optional
	Contracts []ProviderContracts `json:"contracts,omitempty"`
	// selfHosted lists the Clusters that are the management cluster itself. They are paused while components move.
	// +optional
	SelfHosted []ObjectReference `json:"selfHosted,omitempty"`
	// forecast says what to expect.
	Forecast Forecast `json:"forecast"`
	// pointOfNoReturn is the ID of the first step that can't be undone by applying the earlier release. Empty: none.
	// +optional
	PointOfNoReturn string `json:"pointOfNoReturn,omitempty"`
	// digest is the sha256 over the plan without this field.
	Digest string `json:"digest"`
}

// ReleaseReference names a release and pins its content.
type ReleaseReference struct {
	// name is the Release's metadata.name.
	Name string `json:"name"`
	// version is the platform version.
	Version string `json:"version"`
	// digest is the sha256 over the release and all its rendered components.
	Digest string `json:"digest"`
}

// Base holds the facts of the management cluster that a plan relies on.
type Base struct {
	// clusterUID is the UID of the kube-system namespace: it tells one management cluster from another.
	ClusterUID string `json:"clusterUID"`
	// kubernetesVersion is the API server's version.
	KubernetesVersion string `json:"kubernetesVersion"`
	// clusters is how many Clusters there are.
	Clusters int32 `json:"clusters"`
	// machines is how many Machines there are.
	Machines int32 `json:"machines"`
	// platformVersion is the release that was last completed here, empty if none was.
	// +optional
	PlatformVersion string `json:"platformVersion,omitempty"`
}

// Action says what happens to a component.
//
// +kubebuilder:validation:Enum=None;Install;Upgrade;Repair
type Action string

const (
	// ActionNone leaves the component: it is at the target.
	ActionNone Action = "None"
	// ActionInstall brings a component that is not there yet.
	ActionInstall Action = "Install"
	// ActionUpgrade moves a component to another version.
	ActionUpgrade Action = "Upgrade"
	// ActionRepair completes a component whose recorded version is the target but whose objects are not.
	ActionRepair Action = "Repair"
)

// Strategy says how old controllers give way to new ones.
//
// +kubebuilder:validation:Enum=Rolling;StopThenStart
type Strategy string

const (
	// StrategyRolling lets Kubernetes roll the Deployment while the old controller runs.
	StrategyRolling Strategy = "Rolling"
	// StrategyStopThenStart stops the old controllers before the new manifests are applied, for this component alone.
	StrategyStopThenStart Strategy = "StopThenStart"
)

// PlannedComponent is one component of the release with the decision made for it.
type PlannedComponent struct {
	// name is the component's name in the release.
	Name string `json:"name"`
	// type is provider or manifest.
	Type ComponentType `json:"type"`
	// provider is the inventory identity of a provider.
	// +optional
	Provider *ProviderIdentity `json:"provider,omitempty"`
	// from is the installed version, empty if it is not installed.
	// +optional
	From string `json:"from,omitempty"`
	// to is the target version.
	To string `json:"to"`
	// action is what happens.
	Action Action `json:"action"`
	// artifact is the digest of the rendered manifests.
	Artifact string `json:"artifact"`
	// needs are the components that come first.
	// +optional
	Needs []string `json:"needs,omitempty"`
	// strategy is how the controllers are swapped.
	Strategy Strategy `json:"strategy"`
	// hazards are what a rolling swap would hide, with the decision for each.
	// +optional
	Hazards []Hazard `json:"hazards,omitempty"`
	// replace lists objects that can't be changed in place and are deleted and made anew.
	// +optional
	Replace []ObjectReference `json:"replace,omitempty"`
	// prune lists objects that the new version no longer has.
	// +optional
	Prune []ObjectReference `json:"prune,omitempty"`
	// twoPhase lists CRDs that are applied in two phases: what only the new webhook can serve comes after it answers.
	// +optional
	TwoPhase []TwoPhaseCRD `json:"twoPhase,omitempty"`
	// migrate lists whose stored objects are rewritten or repaired before the CRDs are applied.
	// +optional
	Migrate []Migration `json:"migrate,omitempty"`
	// kubernetes gives the Kubernetes versions that the component, or else its release, says that it supports.
	// +optional
	Kubernetes *KubernetesRanges `json:"kubernetes,omitempty"`
	// changes counts objects that differ from the target.
	Changes int32 `json:"changes"`
	// objects counts all objects of the component.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// kept are settings of live objects that were carried over into the manifests.
	// +optional
	Kept []KeptSetting `json:"kept,omitempty"`
}

// KeptSetting is a setting of a live object that a run keeps although the release has it otherwise.
type KeptSetting struct {
	// object is where it is set.
	Object ObjectReference `json:"object"`
	// setting says what is set, "feature gate ClusterTopology of container manager" for example.
	Setting string `json:"setting"`
	// value is what it stays at. It is masked where it looks like a secret.
	Value string `json:"value"`
	// release is what the release has instead, masked in the same way.
	Release string `json:"release"`
}

// TwoPhaseCRD is a CRD that keeps something of its old form until the new conversion webhook answers.
type TwoPhaseCRD struct {
	// name is the CRD's name.
	Name string `json:"name"`
	// storage is the version that stays the storage version during the first phase. Empty: the storage version does not move.
	// +optional
	Storage string `json:"storage,omitempty"`
	// annotations keep these values during the first phase: they say where the webhook's CA comes from.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Hazard is one risk of a rolling swap and what the plan does about it.
type Hazard struct {
	// id is stable, for example "TwoActiveControllers".
	ID string `json:"id"`
	// message says what was found and where.
	Message string `json:"message"`
	// decision says what the run does about it.
	Decision string `json:"decision"`
}

// PlannedStep is one step of a plan.
type PlannedStep struct {
	// id is stable, for example "swap/cluster-api/v1.14.2".
	ID string `json:"id"`
	// summary is one imperative line.
	Summary string `json:"summary"`
	// component is the component the step belongs to.
	Component string `json:"component"`
	// needs are the IDs of the steps that must be done before.
	// +optional
	Needs []string `json:"needs,omitempty"`
}

// Verdict is the result of a check.
//
// +kubebuilder:validation:Enum=Pass;Warn;Block;Unknown
type Verdict string

const (
	// VerdictPass means that the check found nothing.
	VerdictPass Verdict = "Pass"
	// VerdictWarn means that the reader should know, and the run may go on.
	VerdictWarn Verdict = "Warn"
	// VerdictBlock means that the run must not start.
	VerdictBlock Verdict = "Block"
	// VerdictUnknown means that the check could not look; it blocks.
	VerdictUnknown Verdict = "Unknown"
)

// Finding is what one check found.
type Finding struct {
	// id is the check's ID, for example "CAP-CRD-STORED-VERSION".
	ID string `json:"id"`
	// verdict is Pass, Warn, Block or Unknown.
	Verdict Verdict `json:"verdict"`
	// summary is one sentence that names the object.
	Summary string `json:"summary"`
	// remedy is the next step, something the reader can type where possible.
	// +optional
	Remedy string `json:"remedy,omitempty"`
	// objects are concerned.
	// +optional
	Objects []ObjectReference `json:"objects,omitempty"`
	// waivable tells whether the finding may be accepted by name with a reason.
	// +optional
	Waivable bool `json:"waivable,omitempty"`
}

// ObjectReference points at one Kubernetes object.
type ObjectReference struct {
	// apiVersion is group/version.
	APIVersion string `json:"apiVersion"`
	// kind is the object's kind.
	Kind string `json:"kind"`
	// namespace is empty for cluster-scoped objects.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the object's name.
	Name string `json:"name"`
}

// ProviderContracts is one row of the matrix of providers and Cluster API contracts.
type ProviderContracts struct {
	// provider is the provider's name as clusterctl labels it.
	Provider string `json:"provider"`
	// version is the version it will have.
	Version string `json:"version"`
	// contracts are those it speaks, newest first; for the core provider those it works with. Empty: not known.
	// +optional
	Contracts []string `json:"contracts,omitempty"`
	// source says where this is known from.
	// +optional
	Source string `json:"source,omitempty"`
	// stays tells that the provider is no part of the release and keeps its version.
	// +optional
	Stays bool `json:"stays,omitempty"`
}

// Forecast says what to expect of a run.
type Forecast struct {
	// machinesReplaced is how many Machines will be replaced; always 0 for a platform plan.
	MachinesReplaced int32 `json:"machinesReplaced"`
	// duration is how long the run is expected to take.
	Duration metav1.Duration `json:"duration"`
	// basis says where the duration comes from.
	Basis string `json:"basis"`
	// gaps lists components that will be without a running controller for a moment, with the reason.
	// +optional
	Gaps []string `json:"gaps,omitempty"`
}

// PlanList is a list of plans.
//
// +kubebuilder:object:root=true
type PlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Plan `json:"items"`
}
