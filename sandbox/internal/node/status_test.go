// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func statusOf(name string, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: state, Started: new(state.Running != nil), Ready: state.Running != nil}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

func exited(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

func waitingFor(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func TestBuildStatus(t *testing.T) {
	t.Parallel()
	crashed := statusOf("main", waitingFor(waitCrashLoop))
	crashed.LastTerminationState = exited(1)
	done := statusOf("init", exited(0))
	done.Ready = true
	for name, tt := range map[string]struct {
		o         observation
		phase     corev1.PodPhase
		trueConds []corev1.PodConditionType
		reason    string // of Ready
	}{
		"nothing has started": {
			o:     observation{containers: []corev1.ContainerStatus{statusOf("main", waitingFor(waitCreating))}},
			phase: corev1.PodPending, trueConds: []corev1.PodConditionType{corev1.PodInitialized, corev1.PodScheduled}, reason: "ContainersNotReady",
		},
		"an init container runs": {
			o: observation{
				networked: true, init: []corev1.ContainerStatus{statusOf("init", running())},
				containers: []corev1.ContainerStatus{statusOf("main", waitingFor("PodInitializing"))},
			},
			phase: corev1.PodPending, trueConds: []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodScheduled}, reason: "ContainersNotReady",
		},
		"all run": {
			o:         observation{networked: true, init: []corev1.ContainerStatus{done}, containers: []corev1.ContainerStatus{statusOf("main", running())}},
			phase:     corev1.PodRunning,
			trueConds: []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodScheduled},
		},
		"a crashing Pod is Running and not ready": {
			o:         observation{networked: true, containers: []corev1.ContainerStatus{crashed}},
			phase:     corev1.PodRunning,
			trueConds: []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodScheduled}, reason: "ContainersNotReady",
		},
		"an exited container beside a running one": {
			o:     observation{networked: true, containers: []corev1.ContainerStatus{statusOf("a", exited(0)), statusOf("b", running())}},
			phase: corev1.PodRunning, trueConds: []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodScheduled},
			reason: "ContainersNotReady",
		},
		"all have ended well": {
			o:     observation{ended: true, containers: []corev1.ContainerStatus{statusOf("main", exited(0))}},
			phase: corev1.PodSucceeded, trueConds: []corev1.PodConditionType{corev1.PodInitialized, corev1.PodScheduled}, reason: "PodCompleted",
		},
		"one has ended badly": {
			o:     observation{ended: true, containers: []corev1.ContainerStatus{statusOf("a", exited(0)), statusOf("b", exited(3))}},
			phase: corev1.PodFailed, trueConds: []corev1.PodConditionType{corev1.PodInitialized, corev1.PodScheduled}, reason: "PodFailed",
		},
		"an init container has failed for good": {
			o: observation{
				ended: true, init: []corev1.ContainerStatus{statusOf("init", exited(1))},
				containers: []corev1.ContainerStatus{statusOf("main", waitingFor("PodInitializing"))},
			},
			phase: corev1.PodFailed, trueConds: []corev1.PodConditionType{corev1.PodScheduled}, reason: "PodFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tt.o
			o.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			for _, s := range o.init {
				o.pod.Spec.InitContainers = append(o.pod.Spec.InitContainers, corev1.Container{Name: s.Name})
			}
			got := buildStatus(o, metav1.NewTime(time.Unix(100, 0)))
			var trueConds []corev1.PodConditionType
			reason := ""
			for _, c := range got.Conditions {
				if c.Status == corev1.ConditionTrue {
					trueConds = append(trueConds, c.Type)
				}
				if c.Type == corev1.PodReady {
					reason = c.Reason
				}
			}
			slices.Sort(trueConds)
			slices.Sort(tt.trueConds)
			if diff := cmp.Diff([]any{got.Phase, trueConds, reason, got.ObservedGeneration}, []any{tt.phase, tt.trueConds, tt.reason, int64(2)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConditionsKeepTheirTimeAndThoseOfOthers(t *testing.T) {
	t.Parallel()
	old := metav1.NewTime(time.Unix(1, 0))
	o := observation{
		pod: &corev1.Pod{}, containers: []corev1.ContainerStatus{statusOf("main", waitingFor(waitCreating))},
		previous: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: "example.org/Gate", Status: corev1.ConditionTrue, LastTransitionTime: old},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Other", LastTransitionTime: old},
		}},
	}
	got := buildStatus(o, metav1.NewTime(time.Unix(100, 0))).Conditions[:2]
	want := []corev1.PodCondition{
		{Type: "example.org/Gate", Status: corev1.ConditionTrue, LastTransitionTime: old},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [main]", LastTransitionTime: old},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestShouldRestart(t *testing.T) {
	t.Parallel()
	sidecar := corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
	for name, tt := range map[string]struct {
		policy corev1.RestartPolicy
		c      corev1.Container
		init   bool
		code   int32
		want   bool
	}{
		"Always restarts a success":                 {policy: corev1.RestartPolicyAlways, want: true},
		"OnFailure restarts a failure":              {policy: corev1.RestartPolicyOnFailure, code: 1, want: true},
		"OnFailure leaves a success":                {policy: corev1.RestartPolicyOnFailure},
		"Never leaves a failure":                    {policy: corev1.RestartPolicyNever, code: 1},
		"an init container that is done stays done": {policy: corev1.RestartPolicyAlways, init: true},
		"an init container that failed is retried":  {policy: corev1.RestartPolicyAlways, init: true, code: 1, want: true},
		"a sidecar is restarted whatever the Pod's": {policy: corev1.RestartPolicyNever, init: true, c: sidecar, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := shouldRestart(tt.policy, tt.c, tt.init, tt.code); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestStatusPatch(t *testing.T) {
	t.Parallel()
	present := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: map[string]string{"a": "b"}}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: "Other", Status: corev1.ConditionTrue}},
	}}
	same, err := statusPatch(present, corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}})
	if err != nil || same != nil {
		t.Errorf("nothing to change: %s, %v", same, err)
	}
	got, err := statusPatch(present, corev1.PodStatus{Phase: corev1.PodFailed, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}})
	if diff := cmp.Diff([]any{string(got), err}, []any{`{"metadata":{"uid":"u"},"status":{"phase":"Failed"}}`, nil}); diff != "" {
		t.Error(diff)
	}
}
