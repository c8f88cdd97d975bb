// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Intent is what the operator wants of a run.
//
// +kubebuilder:validation:Enum=Run;Pause;Abort
type Intent string

const (
	// IntentRun lets the run go on.
	IntentRun Intent = "Run"
	// IntentPause holds the run between steps.
	IntentPause Intent = "Pause"
	// IntentAbort ends the run between steps; what is done stays done.
	IntentAbort Intent = "Abort"
)

// Upgrade is one run of a plan. Ended runs are the history.
//
// Its status is a journal for people and for takeovers. Whether a step is done is always judged from the cluster, so a
// run whose status was lost (by clusterctl move or a restore) still resumes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=capstan
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=".spec.to"
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=".status.conditions[?(@.type=='Succeeded')].status"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Succeeded')].reason"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Upgrade struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   UpgradeSpec   `json:"spec"`
	Status UpgradeStatus `json:"status,omitempty"`
}

// UpgradeSpec is what was asked for.
type UpgradeSpec struct {
	// plan is the name of the Plan that is run.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run keeps its plan: start another run"
	Plan string `json:"plan"`
	// kind is what the plan upgrades; empty means Platform.
	// +optional
	Kind PlanKind `json:"kind,omitempty"`
	// from is the platform as it was, for people.
	// +optional
	From string `json:"from,omitempty"`
	// to is the target release's version, or the name of the image.
	To string `json:"to"`
	// machines is how many Machines the plan replaces, one after the other where they are in one pool.
	// +optional
	Machines int32 `json:"machines,omitempty"`
	// intent is Run, Pause or Abort.
	// +kubebuilder:default=Run
	Intent Intent `json:"intent"`
	// requestedBy is who started the run.
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`
	// accepted are findings that were accepted by name, with the reason.
	// +optional
	Accepted []AcceptedFinding `json:"accepted,omitempty"`
	// fence is the digest of the artifact that holds the Machines as they were at the start.
	// +optional
	Fence string `json:"fence,omitempty"`
	// stallLimit is how long nothing may move before the run stops.
	StallLimit metav1.Duration `json:"stallLimit"`
	// resumes counts how often the run was told to go on after a stop. A change of it clears the stop.
	// +optional
	Resumes int32 `json:"resumes,omitempty"`
}

// AcceptedFinding is a finding that somebody took responsibility for.
type AcceptedFinding struct {
	// id is the finding's ID.
	ID string `json:"id"`
	// reason is the operator's own words.
	Reason string `json:"reason"`
}

// UpgradeStatus is the journal of a run.
type UpgradeStatus struct {
	// conditions are Succeeded, Progressing, Blocked, BackedUp and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedResumes is the value of spec.resumes that the last stop was judged with.
	// +optional
	ObservedResumes int32 `json:"observedResumes,omitempty"`
	// resumedAt is when the run last went on after a stop.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
	// holder is the process that last drove the run.
	// +optional
	Holder string `json:"holder,omitempty"`
	// steps has one record for each step that was started, in the order of their first start.
	// +optional
	Steps []StepRecord `json:"steps,omitempty"`
	// journal is what happened, oldest first; bounded, the oldest entries go first.
	// +optional
	Journal []JournalEntry `json:"journal,omitempty"`
	// lastProgress is when the world last moved towards the target.
	// +optional
	LastProgress *metav1.Time `json:"lastProgress,omitempty"`
	// progressMark changes whenever the world moves; it lets another process go on counting the stall limit.
	// +optional
	ProgressMark string `json:"progressMark,omitempty"`
	// waiting is what the run waits for, and since when.
	// +optional
	Waiting []Waiting `json:"waiting,omitempty"`
	// stops explain why the run stands still, in the operator's words.
	// +optional
	Stops []Stop `json:"stops,omitempty"`
	// fence is the proof that no workload cluster was touched.
	// +optional
	Fence *FenceStatus `json:"fence,omitempty"`
	// startedAt is when the first step was started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when the run ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// StepState is where a step stands, as last journaled.
//
// +kubebuilder:validation:Enum=Started;Done
type StepState string

const (
	// StepStarted means that the step's change was about to be made or has been made.
	StepStarted StepState = "Started"
	// StepDone means that the cluster was seen at the step's target.
	StepDone StepState = "Done"
)

// StepRecord is what the journal knows of one step.
type StepRecord struct {
	// id is the step's ID in the plan.
	ID string `json:"id"`
	// state is Started or Done.
	State StepState `json:"state"`
	// attempts counts how often the step's change was made or continued.
	Attempts int32 `json:"attempts"`
	// startedAt is when the step was first started.
	StartedAt metav1.Time `json:"startedAt"`
	// finishedAt is when the step was first seen done.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// reopened counts how often the step was seen done and then undone by somebody else.
	// +optional
	Reopened int32 `json:"reopened,omitempty"`
}

// Waiting is one thing that the run waits for.
type Waiting struct {
	Stop `json:",inline"`
	// since is when it was first seen.
	Since metav1.Time `json:"since"`
	// definite tells that waiting alone will most likely not help.
	// +optional
	Definite bool `json:"definite,omitempty"`
}

// JournalEntry is one line of the journal.
type JournalEntry struct {
	// at is when it was written.
	At metav1.Time `json:"at"`
	// event is what happened: Started, Done, Stopped, Resumed, TookOver, Ended, Fence.
	Event string `json:"event"`
	// step is the step concerned, if one is.
	// +optional
	Step string `json:"step,omitempty"`
	// by is the process that wrote it.
	// +optional
	By string `json:"by,omitempty"`
	// message is one sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// Stop is one reason why a run stands still.
type Stop struct {
	// reason is stable, for example ImageNotFound.
	Reason string `json:"reason"`
	// message names what is wrong.
	Message string `json:"message"`
	// remedy says what to do.
	// +optional
	Remedy string `json:"remedy,omitempty"`
	// component is the component concerned.
	// +optional
	Component string `json:"component,omitempty"`
	// step is the step concerned.
	// +optional
	Step string `json:"step,omitempty"`
	// object is the object to look at.
	// +optional
	Object *ObjectReference `json:"object,omitempty"`
}

// FenceStatus is the proof about the workload clusters.
type FenceStatus struct {
	// machines is how many Machines there were at the start.
	Machines int32 `json:"machines"`
	// unchanged is how many of them are there with the same UID and owner.
	Unchanged int32 `json:"unchanged"`
	// violations are changes nobody asked for.
	// +optional
	Violations []string `json:"violations,omitempty"`
	// expected are changes that somebody asked for while the run went on, a scale-up for example.
	// +optional
	Expected []string `json:"expected,omitempty"`
	// excused are the UIDs of Machines that went because a health check gave them up.
	// +optional
	Excused []string `json:"excused,omitempty"`
	// paused are clusters that this run paused because of a violation, as namespace/name.
	// +optional
	Paused []string `json:"paused,omitempty"`
	// probes are per workload cluster.
	// +optional
	Probes []ProbeStatus `json:"probes,omitempty"`
}

// ProbeStatus counts calls to one workload cluster's API server.
type ProbeStatus struct {
	// cluster is namespace/name.
	Cluster string `json:"cluster"`
	// total is how many calls were made.
	Total int64 `json:"total"`
	// failed is how many got no answer.
	Failed int64 `json:"failed"`
	// longestGap is the longest time without an answer.
	LongestGap metav1.Duration `json:"longestGap"`
	// gaps explains failures: when and what was going on.
	// +optional
	Gaps []string `json:"gaps,omitempty"`
}

// UpgradeList is a list of runs.
//
// +kubebuilder:object:root=true
type UpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Upgrade `json:"items"`
}
