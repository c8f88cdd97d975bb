// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

func now() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

const image = "registry.local/capi/manager:v1.14.2"

// pod is a Pod of one container, on a node, five minutes old.
func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: "capi-0", CreationTimestamp: ago(5 * time.Minute)},
		Spec: corev1.PodSpec{
			NodeName:   "node-1",
			Containers: []corev1.Container{{Name: "manager", Image: image}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	change(p)
	return p
}

func waiting(reason, message string) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "manager", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
	})
}

func crashing(restarts int32, end corev1.ContainerStateTerminated, limit string) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		if limit != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "manager", RestartCount: restarts,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
			LastTerminationState: corev1.ContainerState{Terminated: &end},
		}}
	})
}

func unscheduled(message, memory string, since time.Duration) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: message, LastTransitionTime: ago(since),
		}}
	})
}

func cause(reason string, definite bool, message, remedy string) []world.Cause {
	return []world.Cause{{
		Reason: reason, Definite: definite, Message: message, Remedy: remedy + `, then run "capstan resume"`,
		Object: world.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "capi-system", Name: "capi-0"},
		Made:   ago(5 * time.Minute).Time,
	}}
}

func TestPod(t *testing.T) {
	t.Parallel()
	const who = "Pod capi-system/capi-0 "
	const describe = `read "kubectl describe pod -n capi-system capi-0" and fix the cause`
	const previous = `read "kubectl logs -n capi-system capi-0 -c manager --previous" and fix the cause`
	oneNode := []world.Node{{Name: "node-1", Ready: true, AllocatableMemory: 8<<30 + 12345, AllocatableCPU: 2000}}

	tests := map[string]struct {
		pod    *corev1.Pod
		nodes  []world.Node
		events []corev1.Event
		want   []world.Cause
	}{
		"an image the registry does not have is named with the registry's words": {
			pod: waiting("ImagePullBackOff", `Back-off pulling image "`+image+`": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image: `+image+`: not found`),
			want: cause(v1alpha1.StopImageNotFound, true,
				who+"can't pull image "+image+" for its container manager on node node-1 (ImagePullBackOff): the registry does not have it (failed to pull and unpack image: "+image+": not found)",
				"make the image available: "+image),
		},
		"a refused pull asks for credentials": {
			pod: waiting("ErrImagePull", "unauthorized: authentication required"),
			want: cause(v1alpha1.StopImageNotFound, true,
				who+"can't pull image "+image+" for its container manager on node node-1 (ImagePullBackOff): the registry refuses it: the image is missing or the credentials are wrong (unauthorized: authentication required)",
				"make the image available or fix the registry's credentials: "+image),
		},
		"an unreachable registry may come back by itself": {
			pod: waiting("ErrImagePull", "dial tcp 10.0.0.1:443: connect: connection refused"),
			want: cause(v1alpha1.StopImageNotFound, false,
				who+"can't pull image "+image+" for its container manager on node node-1 (ImagePullBackOff): the registry can't be reached (dial tcp 10.0.0.1:443: connect: connection refused)",
				"make the registry reachable from the node: "+image),
		},
		"a back-off without words is still definite": {
			pod: waiting("ImagePullBackOff", `Back-off pulling image "`+image+`"`),
			want: cause(v1alpha1.StopImageNotFound, true,
				who+"can't pull image "+image+" for its container manager on node node-1 (ImagePullBackOff): no reason is given",
				"make the image available or fix the registry's credentials: "+image),
		},
		"a name that is none": {
			pod: waiting("InvalidImageName", "couldn't parse image name"),
			want: cause(v1alpha1.StopImageNotFound, true,
				who+"can't pull image "+image+" for its container manager: that is not an image name", "correct the image name in the component's manifests"),
		},
		"too little memory names what is asked and what there is": {
			pod:   unscheduled("0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.", "64Gi", time.Minute),
			nodes: oneNode,
			want: cause(v1alpha1.StopUnschedulable, true,
				who+"fits on no node (of 1 node): too little memory on 1 node (it asks for 64Gi, the largest node has 8Gi for all its Pods)",
				"free memory on a node, add a node with more, or lower the memory request"),
		},
		"several reasons are all named": {
			pod: unscheduled("0/6 nodes are available: 1 node(s) were unschedulable, 2 Insufficient memory, 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }.", "1Gi", time.Minute),
			want: cause(v1alpha1.StopUnschedulable, true,
				who+"fits on no node (of 6 nodes): cordoned on 1 node; too little memory on 2 nodes (it asks for 1Gi); a taint it does not tolerate on 3 nodes {node-role.kubernetes.io/control-plane: }",
				`free memory on a node, add a node with more, or lower the memory request, or remove the taint or let the component tolerate it, or run "kubectl uncordon" on a node`),
		},
		"nodes that are just coming up are no definite cause": {
			pod: unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.", "1Gi", time.Hour),
			want: cause(v1alpha1.StopUnschedulable, false,
				who+"fits on no node (of 1 node): a taint it does not tolerate on 1 node {node.kubernetes.io/not-ready: }",
				"remove the taint or let the component tolerate it"),
		},
		"a Pod that was just refused may find room yet": {
			pod: unscheduled("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", "1Gi", time.Second),
			want: cause(v1alpha1.StopUnschedulable, false,
				who+"fits on no node (of 1 node): its node selector or affinity does not match on 1 node",
				"label a node as the component's node selector asks"),
		},
		"a manager that exits again and again says why": {
			pod: crashing(4, corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "I0304 starting\nunable to load config: no such file\n"}, ""),
			want: cause(v1alpha1.StopCrashing, true,
				who+"has a container manager (image "+image+") that exits with code 1, restarted 4 times; it said: unable to load config: no such file", previous),
		},
		"a first crash may pass": {
			pod: crashing(1, corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}, ""),
			want: cause(v1alpha1.StopCrashing, false,
				who+"has a container manager (image "+image+") that exits with code 2, restarted once", previous),
		},
		"a memory limit that was hit is named": {
			pod: crashing(2, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}, "64Mi"),
			want: cause(v1alpha1.StopOutOfMemory, true,
				who+"has a container manager that was killed for its memory, restarted 2 times: its limit is 64Mi",
				"raise the memory limit of container manager in the component's manifests"),
		},
		"a kill for memory without a limit is the node's": {
			pod: crashing(1, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}, ""),
			want: cause(v1alpha1.StopOutOfMemory, false,
				who+"has a container manager that was killed for its memory, restarted once: it has no limit, so node node-1 ran out",
				"free memory on the node or add a node"),
		},
		"a missing Secret is named": {
			pod: waiting("CreateContainerConfigError", `secret "capi-webhook-cert" not found`),
			want: cause(v1alpha1.StopConfigMissing, true,
				who+`waits for Secret capi-webhook-cert, which its container manager needs: secret "capi-webhook-cert" not found`,
				"create Secret capi-webhook-cert in namespace capi-system"),
		},
		"a missing key of a ConfigMap is named": {
			pod: waiting("CreateContainerConfigError", "couldn't find key mode in ConfigMap capi-system/settings"),
			want: cause(v1alpha1.StopConfigMissing, true,
				who+"waits for ConfigMap settings, which its container manager needs: couldn't find key mode in ConfigMap capi-system/settings",
				"create ConfigMap settings in namespace capi-system"),
		},
		"a container that can't be started": {
			pod: waiting("RunContainerError", `exec: "/manger": stat /manger: no such file or directory`),
			want: cause(v1alpha1.StopCrashing, true,
				who+"can't start its container manager (image "+image+`): exec: "/manger": stat /manger: no such file or directory`, describe),
		},
		"a volume that can't be mounted is found in the events": {
			pod: waiting("ContainerCreating", ""),
			events: []corev1.Event{
				{Type: "Warning", Reason: "FailedMount", Message: `MountVolume.SetUp failed for volume "cert" : secret "capi-webhook-cert" not found`},
				{Type: "Normal", Reason: "Scheduled", Message: "assigned"},
			},
			want: cause(v1alpha1.StopConfigMissing, true,
				who+`waits for Secret capi-webhook-cert: MountVolume.SetUp failed for volume "cert" : secret "capi-webhook-cert" not found`,
				"create Secret capi-webhook-cert in namespace capi-system"),
		},
		"a container that is being created is no fault": {
			pod: waiting("ContainerCreating", ""),
		},
		"a container that stays unready is mentioned": {
			pod: pod(func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodRunning
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(2 * time.Minute)}}}}
			}),
			want: cause(v1alpha1.StopNotReady, false, who+"runs on node node-1, but its container manager does not become ready",
				`read "kubectl logs -n capi-system capi-0 -c manager" and fix the cause`),
		},
		"a container that has just started is no fault": {
			pod: pod(func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodRunning
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Second)}}}}
			}),
		},
		"an evicted Pod": {
			pod: pod(func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			}),
			want: cause(v1alpha1.StopOutOfMemory, false, who+"was evicted from node node-1: The node was low on resource: memory.", "free memory on the node or add a node"),
		},
		"a Pod that the node has no room for": {
			pod: pod(func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "OutOfmemory", "Node didn't have enough resource: memory"
			}),
			want: cause(v1alpha1.StopUnschedulable, true, who+"was refused by node node-1 (OutOfmemory): Node didn't have enough resource: memory", "make room on the node or add a node"),
		},
		"a Pod on its way out is no fault": {
			pod: pod(func(p *corev1.Pod) {
				*p = *waiting("ErrImagePull", "not found")
				p.DeletionTimestamp = &metav1.Time{Time: now()}
			}),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := diagnose.Pod(test.pod, diagnose.Facts{At: now(), Nodes: test.nodes, Events: test.events})
			if diff := cmp.Diff(got, test.want); diff != "" {
				t.Errorf("Pod() (-got +want):\n%s", diff)
			}
		})
	}
}

func TestSortPutsDefiniteCausesFirstAndEachOnce(t *testing.T) {
	t.Parallel()
	a, b, c := world.Cause{Message: "a"}, world.Cause{Message: "b", Definite: true}, world.Cause{Message: "c", Definite: true}
	got := diagnose.Sort([]world.Cause{a, b, a, c, b})
	if diff := cmp.Diff(got, []world.Cause{b, c, a}); diff != "" {
		t.Errorf("Sort() (-got +want):\n%s", diff)
	}
}
