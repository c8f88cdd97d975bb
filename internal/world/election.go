// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Election is what a controller's arguments say about leader election.
type Election struct {
	// Lease and Namespace name the lease, empty where the arguments leave that to the program.
	Lease, Namespace string

	said, on bool
}

// On tells that leader election is switched on by an argument.
func (e Election) On() bool { return e.said && e.on }

// Off tells that leader election is switched off by an argument.
func (e Election) Off() bool { return e.said && !e.on }

// ElectionOf reads the flags that controller-runtime's scaffolding, Cluster API and cert-manager use from all containers
// of a Deployment.
func ElectionOf(deployment *unstructured.Unstructured) Election {
	var e Election
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return e
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			continue
		}
		command, _, errCommand := unstructured.NestedStringSlice(container, "command")
		args, _, errArgs := unstructured.NestedStringSlice(container, "args")
		if errCommand != nil || errArgs != nil {
			continue
		}
		for _, arg := range slices.Concat(command, args) {
			e.read(arg)
		}
	}
	return e
}

func (e *Election) read(arg string) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	switch name {
	case "leader-elect", "enable-leader-election", "leader-election":
		e.said, e.on = true, !hasValue || (value != "false" && value != "0")
	case "leader-election-id", "leader-elect-resource-name":
		e.Lease = value
	case "leader-election-namespace", "leader-elect-resource-namespace":
		e.Namespace = value
	}
}
