// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observation is what a worker knows about its Pod.
type observation struct {
	pod        *corev1.Pod // as in the API
	previous   corev1.PodStatus
	hostIP     string
	podIP      string
	startTime  metav1.Time
	networked  bool // the Pod has its network
	init       []corev1.ContainerStatus
	containers []corev1.ContainerStatus
	// ended is set once nothing of the Pod runs any more, nor ever will.
	ended bool
	// reason and message explain a Pod that was failed as a whole.
	reason, message string
	failed          bool
}

// buildStatus says what the Pod's status is. It has no other input than o and
// the time, which goes into conditions that change.
func buildStatus(o observation, now metav1.Time) corev1.PodStatus {
	s := corev1.PodStatus{
		ObservedGeneration:    o.pod.Generation,
		HostIP:                o.hostIP,
		HostIPs:               []corev1.HostIP{{IP: o.hostIP}},
		StartTime:             new(o.startTime),
		InitContainerStatuses: o.init,
		ContainerStatuses:     o.containers,
		QOSClass:              o.previous.QOSClass,
		Reason:                o.reason,
		Message:               o.message,
		NominatedNodeName:     o.previous.NominatedNodeName,
	}
	if o.podIP != "" {
		s.PodIP, s.PodIPs = o.podIP, []corev1.PodIP{{IP: o.podIP}}
	}
	s.Phase = phaseOf(o)
	s.Conditions = conditionsOf(o, s.Phase, now)
	return s
}

// isSidecar says that an init container goes on running beside the others.
func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// phaseOf is the kubelet's rule. Succeeded and Failed are for Pods of which
// nothing runs any more.
func phaseOf(o observation) corev1.PodPhase {
	if o.ended {
		return lastPhase(o)
	}
	if initIncomplete(o) {
		return corev1.PodPending
	}
	for _, c := range o.containers {
		if c.State.Waiting != nil && c.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

func lastPhase(o observation) corev1.PodPhase {
	if o.failed {
		return corev1.PodFailed
	}
	for _, c := range o.containers {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// initIncomplete says whether an init container has still to complete.
func initIncomplete(o observation) bool {
	for i, c := range o.init {
		if isSidecar(o.pod.Spec.InitContainers[i]) {
			if !o.ended && !isTrue(c.Started) {
				return true
			}
			continue
		}
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return true
		}
	}
	return false
}

// conditionsOf keeps the conditions of others and sets the kubelet's own.
func conditionsOf(o observation, phase corev1.PodPhase, now metav1.Time) []corev1.PodCondition {
	set := conditionSet{list: slices.Clone(o.previous.Conditions), now: now, generation: o.pod.Generation}
	done := phase == corev1.PodSucceeded
	set.put(corev1.PodReadyToStartContainers, o.networked && !o.ended, "", "")

	switch {
	case done:
		set.put(corev1.PodInitialized, true, "PodCompleted", "")
	case initIncomplete(o):
		names := unready(o.init, func(c corev1.ContainerStatus) bool { return c.Ready })
		set.put(corev1.PodInitialized, false, "ContainersNotInitialized", "containers with incomplete status: "+names)
	default:
		set.put(corev1.PodInitialized, true, "", "")
	}

	names := unready(o.containers, func(c corev1.ContainerStatus) bool { return c.Ready })
	gates := closedGates(o.pod, set.list)
	switch {
	case done:
		set.put(corev1.PodReady, false, "PodCompleted", "")
		set.put(corev1.ContainersReady, false, "PodCompleted", "")
	case phase == corev1.PodFailed:
		set.put(corev1.PodReady, false, "PodFailed", "")
		set.put(corev1.ContainersReady, false, "PodFailed", "")
	case names != "[]":
		message := "containers with unready status: " + names
		set.put(corev1.PodReady, false, "ContainersNotReady", message)
		set.put(corev1.ContainersReady, false, "ContainersNotReady", message)
	default:
		set.put(corev1.ContainersReady, true, "", "")
		if gates != "" {
			set.put(corev1.PodReady, false, "ReadinessGatesNotReady", gates)
		} else {
			set.put(corev1.PodReady, true, "", "")
		}
	}
	set.put(corev1.PodScheduled, true, "", "")
	return set.list
}

func unready(list []corev1.ContainerStatus, ready func(corev1.ContainerStatus) bool) string {
	var names []string
	for _, c := range list {
		if !ready(c) {
			names = append(names, c.Name)
		}
	}
	return "[" + strings.Join(names, " ") + "]"
}

// closedGates names a readiness gate whose condition is not true.
func closedGates(pod *corev1.Pod, conditions []corev1.PodCondition) string {
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			return fmt.Sprintf("condition %q is not %q", gate.ConditionType, corev1.ConditionTrue)
		}
	}
	return ""
}

type conditionSet struct {
	list       []corev1.PodCondition
	now        metav1.Time
	generation int64
}

// put sets a condition; its transition time changes with its status only.
func (s *conditionSet) put(kind corev1.PodConditionType, status bool, reason, message string) {
	c := corev1.PodCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: s.now, ObservedGeneration: s.generation,
	}
	if status {
		c.Status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(s.list, func(old corev1.PodCondition) bool { return old.Type == kind })
	if i < 0 {
		s.list = append(s.list, c)
		return
	}
	if s.list[i].Status == c.Status {
		c.LastTransitionTime = s.list[i].LastTransitionTime
	}
	s.list[i] = c
}

// waitingStatuses is what a Pod starts with: the containers as the API server
// knew them before, or as new.
func waitingStatuses(specs []corev1.Container, old []corev1.ContainerStatus, reason string) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, spec := range specs {
		s := corev1.ContainerStatus{
			Name: spec.Name, Image: spec.Image, Started: new(false),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}
		i := slices.IndexFunc(old, func(o corev1.ContainerStatus) bool { return o.Name == spec.Name })
		if i >= 0 && old[i].ContainerID != "" {
			s.RestartCount, s.LastTerminationState = old[i].RestartCount+1, lastOf(old[i])
		}
		list = append(list, s)
	}
	return list
}

// lastOf is the end of a container that an earlier agent ran.
func lastOf(old corev1.ContainerStatus) corev1.ContainerState {
	if old.State.Terminated != nil {
		return old.State
	}
	if old.State.Running == nil {
		return old.LastTerminationState
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", ContainerID: old.ContainerID, StartedAt: old.State.Running.StartedAt,
		Message: "The container was killed when the node agent ended",
	}}
}
