// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// publish asks for the status to be sent; several requests become one.
func (w *worker) publish() {
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

func (w *worker) publishLoop(ctx context.Context) {
	for {
		select {
		case <-w.dirty:
			w.a.notify(w.snapshot())
		case <-ctx.Done():
			return
		}
	}
}

// snapshot is the Pod with its present status.
func (w *worker) snapshot() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pod.DeepCopy()
	o := observation{
		pod: pod, previous: w.previous, hostIP: w.a.cfg.NodeIP.String(), podIP: w.ip, startTime: w.started,
		networked: w.networked, init: cloneStatuses(w.init), containers: cloneStatuses(w.containers),
		ended: w.ended, failed: w.failed && w.ended, reason: w.reason, message: w.message,
	}
	pod.Status = buildStatus(o, w.a.nowOf())
	w.previous.Conditions = pod.Status.DeepCopy().Conditions
	return pod
}

func cloneStatuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range list {
		out = append(out, *list[i].DeepCopy())
	}
	return out
}
