// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package event holds what the engine tells its host while a run goes on. Printers render events; nothing decides by
// them.
package event

import (
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Event is one thing that happened. The set of types is closed.
type Event interface{ sealed() }

// Sink takes events. It must not block.
type Sink func(Event)

// StepStarted tells that a step's change is about to be made.
type StepStarted struct {
	At                       time.Time
	Step, Component, Summary string
	Attempt                  int32
}

// StepDone tells that the cluster was seen at a step's target.
type StepDone struct {
	At                       time.Time
	Step, Component, Summary string
	Took                     time.Duration
	// Index counts steps that are done, Total all steps.
	Index, Total int
}

// Waiting tells what the run waits for. It is sent when the answer changes.
type Waiting struct {
	At              time.Time
	Step, Component string
	Detail          string
	Since           time.Time
	Causes          []v1alpha1.Waiting
}

// Retrying tells that a call to the cluster did not work and will be made again.
type Retrying struct {
	At    time.Time
	Step  string
	Err   error
	Since time.Time
}

// Kept tells that a field changed by hand while the run stood still was left as the operator set it.
type Kept struct {
	At              time.Time
	Object          string
	Fields          []string
	Manager         string
	ManagerChangeAt time.Time
}

// TookOver tells that another process had driven the run before.
type TookOver struct {
	At   time.Time
	From string
}

// Stopped tells that the run holds.
type Stopped struct {
	At    time.Time
	Stops []v1alpha1.Stop
}

// Ended tells that the run is over.
type Ended struct {
	At     time.Time
	Reason string
}

func (StepStarted) sealed() {}
func (StepDone) sealed()    {}
func (Waiting) sealed()     {}
func (Retrying) sealed()    {}
func (Kept) sealed()        {}
func (TookOver) sealed()    {}
func (Stopped) sealed()     {}
func (Ended) sealed()       {}
