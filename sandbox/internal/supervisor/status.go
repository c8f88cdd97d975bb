// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import "time"

// Phase is the state of the whole sandbox as its supervisor sees it.
type Phase string

// Phases, in order; Failed may follow Starting.
const (
	// PhaseStarting: components are being started, one after the other.
	PhaseStarting Phase = "Starting"
	// PhaseRunning: every component has been healthy once.
	PhaseRunning Phase = "Running"
	// PhaseFailed: the start failed; the message says why. The supervisor ends soon.
	PhaseFailed Phase = "Failed"
	// PhaseStopping: shutdown was asked for.
	PhaseStopping Phase = "Stopping"
)

// ComponentState is the state of one component.
type ComponentState string

// Component states. Pending → Starting → Healthy ⇄ Unhealthy; a process that ends is Restarting until its back-off is over.
const (
	StatePending    ComponentState = "Pending"
	StateStarting   ComponentState = "Starting"
	StateHealthy    ComponentState = "Healthy"
	StateUnhealthy  ComponentState = "Unhealthy"
	StateRestarting ComponentState = "Restarting"
)

// ComponentStatus is what is known of one component.
type ComponentStatus struct {
	Name  string         `json:"name"`
	State ComponentState `json:"state"`
	// PID is the process ID inside the sandbox; 1 means that the component is a part of the supervisor.
	PID int `json:"pid,omitempty"`
	// HostPID is the process ID as the host sees it; the command line fills it in.
	HostPID  int       `json:"hostPID,omitempty"`
	Restarts int       `json:"restarts"`
	Since    time.Time `json:"since"`
	Message  string    `json:"message,omitempty"`
}

// Addresses says where things are reached.
type Addresses struct {
	// APIServer is reached through Proxy.
	APIServer string `json:"apiServer"`
	Proxy     string `json:"proxy"`
	// Registry is the image registry for clients on the host; Pods reach the same one at RegistryInside.
	Registry       string `json:"registry"`
	RegistryInside string `json:"registryInside,omitempty"`
}

// Status is the supervisor's answer to "how are you".
type Status struct {
	Spec       Spec              `json:"spec"`
	Phase      Phase             `json:"phase"`
	Message    string            `json:"message,omitempty"`
	Started    time.Time         `json:"started"`
	Components []ComponentStatus `json:"components"`
	Addresses  Addresses         `json:"addresses"`
}

// Image is one image of the sandbox's registry.
type Image struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Local is set when the name was given in this sandbox and is not one of the shared ones.
	Local bool `json:"local"`
}

// NodeResources is what the node offers to Pods; an empty field means "leave as it is".
type NodeResources struct {
	Memory string `json:"memory,omitempty"`
	CPU    string `json:"cpu,omitempty"`
}
