// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations that a run puts on a Cluster.
const (
	// PausedByAnnotation is on a Cluster that a run paused because it changed although nobody asked for it. Its value is the
	// run's name. A person has to look; an abort, or the end of a run that was resumed, puts spec.paused back.
	PausedByAnnotation = "capstan.dev/paused-by"
	// HeldForAnnotation is on the management cluster's own Cluster while a run moves components. Its value is the run's name.
	// The run takes it away and puts spec.paused back when it ends.
	HeldForAnnotation = "capstan.dev/held-for"
	// PausedBeforeAnnotation says what spec.paused was before a run set it: "true", "false", or "absent".
	PausedBeforeAnnotation = "capstan.dev/paused-before"
	// RollPausedValue is the value of Cluster API's pause annotation where a roll of nodes set it: on a health check while
	// its Machines are rolled, and on a control plane or MachineDeployment that an abort left half-way.
	RollPausedValue = "capstan-roll"
)
