// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// blockerOf says what a Machine waits for that goes or comes up, in a few words, with the reason's name and since when;
// nothing for one that has a node and stays.
func blockerOf(machine, infrastructure *unstructured.Unstructured) (message, reason string, since time.Time) {
	var c condition
	switch {
	case machine.GetDeletionTimestamp() != nil:
		c = goingBlocker(machine)
	case stringAt(machine, "status", "nodeRef", "name") == "":
		c = comingBlocker(machine, infrastructure)
	}
	return strings.TrimSpace(cmp.Or(c.message, c.reason)), c.reason, c.since
}

// goingBlocker is what holds up a Machine's deletion: a condition of its own in the newer form, and in the older one a
// condition for each thing that has to be done before.
func goingBlocker(machine *unstructured.Unstructured) condition {
	conditions := conditionsOf(machine)
	if c, found := firstOf(conditions, "Deleting"); found && c.status == "True" {
		return startedAt(machine, c)
	}
	for _, old := range []struct{ kind, reason string }{
		{"PreDrainDeleteHookSucceeded", "WaitingForPreDrainHook"},
		{"DrainingSucceeded", "DrainingNode"},
		{"VolumeDetachSucceeded", "WaitingForVolumeDetach"},
		{"PreTerminateDeleteHookSucceeded", "WaitingForPreTerminateHook"},
	} {
		if c, found := firstOf(conditions, old.kind); found && c.status == "False" {
			c.message, c.reason = cmp.Or(c.message, c.reason), old.reason
			return c
		}
	}
	for _, old := range []struct {
		kinds  []string
		reason string
	}{
		{[]string{"InfrastructureReady"}, "WaitingForInfrastructureDeletion"}, {[]string{"BootstrapConfigReady", "BootstrapReady"}, "WaitingForBootstrapDeletion"},
	} {
		if c, found := firstOf(conditions, old.kinds...); found && c.status == "False" && strings.HasPrefix(c.reason, "Delet") {
			c.message, c.reason = cmp.Or(c.message, c.reason), old.reason
			return c
		}
	}
	return condition{reason: "Deleting", message: "it is being deleted", since: machine.GetDeletionTimestamp().Time}
}

// startedAt says since when the present part of a deletion lasts: the condition keeps one time for all of them.
func startedAt(machine *unstructured.Unstructured, c condition) condition {
	field := ""
	switch c.reason {
	case "DrainingNode":
		field = "nodeDrainStartTime"
	case "WaitingForVolumeDetach":
		field = "waitForNodeVolumeDetachStartTime"
	}
	if at, err := time.Parse(time.RFC3339, stringAt(machine, "status", "deletion", field)); field != "" && err == nil {
		c.since = at
	}
	return c
}

// comingBlocker is what a Machine without a node waits for: its configuration, its infrastructure, and then the node.
func comingBlocker(machine, infrastructure *unstructured.Unstructured) condition {
	conditions := conditionsOf(machine)
	if c, found := firstOf(conditions, "BootstrapConfigReady", "BootstrapReady"); found && c.status != "True" {
		return c
	}
	if c, found := firstOf(conditions, "InfrastructureReady"); found && c.status != "True" {
		if infrastructure != nil {
			if own, found := unmet(infrastructure); found {
				return own
			}
		}
		return c
	}
	if c, found := firstOf(conditions, "NodeReady", "NodeHealthy"); found && c.status != "True" {
		return c
	}
	return condition{}
}

// unmet is the condition of an infrastructure Machine that tells most about what it waits for: not one that sums others up,
// nor one that is False when all is well.
func unmet(u *unstructured.Unstructured) (condition, bool) {
	for _, c := range conditionsOf(u) {
		if c.status != "False" || cmp.Or(c.message, c.reason) == "" || c.reason == "Not"+c.kind ||
			slices.Contains([]string{"Ready", "Available", "Paused", "Deleting"}, c.kind) {
			continue
		}
		c.message = c.kind + ": " + cmp.Or(c.message, c.reason)
		return c, true
	}
	return condition{}, false
}
