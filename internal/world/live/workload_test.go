// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/diagnose"
)

func TestRollout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object string
		want   string
	}{
		"an old status does not count": {
			object: "kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}",
			want:   "its controller has yet to see the change",
		},
		"new Pods are missing": {
			object: "kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 3}\nstatus: {observedGeneration: 2, replicas: 3, updatedReplicas: 1, availableReplicas: 3}",
			want:   "1 of 3 Pods of the new version",
		},
		"an old Pod is left": {
			object: "kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, availableReplicas: 2}",
			want:   "1 Pod of the old version left",
		},
		"the new Pod is not available": {
			object: "kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 1, updatedReplicas: 1}",
			want:   "0 of 1 Pod available",
		},
		"a Deployment at its spec": {
			object: "kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}",
		},
		"a Deployment without replicas is at its spec": {
			object: "kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 0}\nstatus: {observedGeneration: 2}",
		},
		"one Pod is meant when nothing is said": {
			object: "kind: Deployment\nmetadata: {generation: 1}\nspec: {}\nstatus: {observedGeneration: 1}",
			want:   "0 of 1 Pod of the new version",
		},
		"a StatefulSet that waits for its last Pod": {
			object: "kind: StatefulSet\nmetadata: {generation: 1}\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, availableReplicas: 2}",
			want:   "1 of 2 Pods of the new version",
		},
		"a StatefulSet whose old Pods are meant to stay": {
			object: "kind: StatefulSet\nmetadata: {generation: 1}\nspec: {replicas: 2, updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1, replicas: 2, updatedReplicas: 0, availableReplicas: 2}",
		},
		"a DaemonSet on every node but one": {
			object: "kind: DaemonSet\nmetadata: {generation: 1}\nstatus: {observedGeneration: 1, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}",
			want:   "2 of 3 Pods available",
		},
		"a Job that runs": {
			object: "kind: Job\nstatus: {active: 1}",
			want:   "it is not complete",
		},
		"a Job that is complete": {
			object: "kind: Job\nstatus: {conditions: [{type: Complete, status: 'True'}]}",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := workloadOf(parse(t, "apiVersion: apps/v1\n"+test.object))
			if err != nil {
				t.Fatal(err)
			}
			if got := w.rollout.waitsFor(); got != test.want {
				t.Errorf("waits for %q, want %q", got, test.want)
			}
			if got := w.rollout.done(); got != (test.want == "") {
				t.Errorf("done is %t, want %t", got, test.want == "")
			}
		})
	}
}

// rolling is a Deployment in the middle of a rollout: its old Pod runs, its new one is made by change.
func rolling(t *testing.T, change func(old, fresh *corev1.Pod)) *workloadState {
	t.Helper()
	w, err := workloadOf(parse(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: rolling, generation: 2, annotations: {deployment.kubernetes.io/revision: '2'}}\n"+
		"spec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, availableReplicas: 1}"))
	if err != nil {
		t.Fatal(err)
	}
	for revision, name := range map[string]string{"1": "old", "2": "fresh"} {
		w.sets = append(w.sets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Annotations: map[string]string{"deployment.kubernetes.io/revision": revision},
		}})
	}
	pod := func(of string) *corev1.Pod {
		controller := true
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "rolling", Name: of + "-1", OwnerReferences: []metav1.OwnerReference{{UID: types.UID(of), Controller: &controller}}},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "m", Image: "i"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
	w.pods = []*corev1.Pod{pod("old"), pod("fresh")}
	change(w.pods[0], w.pods[1])
	return w
}

func waitingFor(p *corev1.Pod, reason, message string) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "m", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

func TestCausesComeFromTheNewVersionFirst(t *testing.T) {
	t.Parallel()
	w := rolling(t, func(old, fresh *corev1.Pod) {
		waitingFor(old, "RunContainerError", "old fault")
		waitingFor(fresh, "ErrImagePull", "i/o timeout")
	})
	h := w.health(diagnose.Facts{At: clock.RealClock{}.Now()})
	var got [][2]any
	for _, c := range h.Causes {
		got = append(got, [2]any{c.Object.Name, c.Definite})
	}
	// Neither is definite: a registry may come back, and the old version is on its way out.
	if diff := cmp.Diff(got, [][2]any{{"fresh-1", false}, {"old-1", false}}); diff != "" {
		t.Errorf("causes (-got +want):\n%s", diff)
	}
}

func TestAControllerThatGaveUpIsACauseOnlyWithoutABetterOne(t *testing.T) {
	t.Parallel()
	w := rolling(t, func(*corev1.Pod, *corev1.Pod) {})
	w.failure = "ReplicaSet has timed out progressing."
	if h := w.health(diagnose.Facts{At: clock.RealClock{}.Now()}); len(h.Causes) != 1 || h.Causes[0].Object.Kind != "Deployment" {
		t.Errorf("causes are %+v, want the Deployment's own", h.Causes)
	}
	waitingFor(w.pods[1], "ErrImagePull", "not found")
	if h := w.health(diagnose.Facts{At: clock.RealClock{}.Now()}); len(h.Causes) != 1 || h.Causes[0].Object.Kind != "Pod" {
		t.Errorf("causes are %+v, want the Pod's", h.Causes)
	}
}

func TestProgressIgnoresACrashLoopTurning(t *testing.T) {
	t.Parallel()
	crash := func(restarts int32, running bool) func(old, fresh *corev1.Pod) {
		return func(_, fresh *corev1.Pod) {
			s := corev1.ContainerStatus{Name: "m", RestartCount: restarts, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
			if running {
				s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			}
			fresh.Status.ContainerStatuses = []corev1.ContainerStatus{s}
		}
	}
	first := rolling(t, crash(1, false)).progress()
	if again := rolling(t, crash(5, true)).progress(); again != first {
		t.Errorf("progress went from %d to %d over restarts", first, again)
	}
	if before := rolling(t, func(*corev1.Pod, *corev1.Pod) {}).progress(); before == first {
		t.Errorf("progress is %d before and after the container first started", before)
	}
}

func TestUnsteady(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		exit    int32
		started time.Duration
		want    bool
	}{
		"restarted a moment ago after a crash":        {exit: 1, started: -time.Second, want: true},
		"up for long since":                           {exit: 1, started: -time.Minute},
		"restarted after a clean end":                 {exit: 0, started: -time.Second},
		"a clock that runs apart does not hold it up": {exit: 1, started: time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rolling(t, func(_, fresh *corev1.Pod) {
				fresh.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "m", RestartCount: 1, Ready: true,
					State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at.Add(test.started))}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: test.exit}},
				}}
			})
			if got := w.unsteady(at); (got != "") != test.want {
				t.Errorf("unsteady is %q, want something: %t", got, test.want)
			}
		})
	}
}

func TestMadeByDeployment(t *testing.T) {
	t.Parallel()
	controller := true
	pod := func(set, hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: set, Controller: &controller}},
		}}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"its Pod": {pod: pod("capi-abc", "abc"), want: true},
		"a Pod of a Deployment with a longer name": {pod: pod("capi-kubeadm-abc", "abc")},
		"a Pod of nobody":                          {pod: &corev1.Pod{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := madeByDeployment(test.pod, "capi"); got != test.want {
				t.Errorf("madeByDeployment() = %t, want %t", got, test.want)
			}
		})
	}
}
