// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stop ends the Pod within grace. Called again it can only shorten the time.
// finalize says that the API waits to hear of the end.
func (w *worker) stop(grace time.Duration, finalize bool) {
	w.mu.Lock()
	w.finalize = w.finalize || finalize
	closeOnce(w.gone)
	w.mu.Unlock()
	w.stopContainers(grace)
}

// stopContainers is stop without the end of the worker.
func (w *worker) stopContainers(grace time.Duration) {
	w.mu.Lock()
	closeOnce(w.halt)
	w.mu.Unlock()
	go func() {
		select {
		case <-w.a.cfg.Clock.After(grace):
		case <-w.done:
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		closeOnce(w.kill)
	}()
}

// closeOnce is for channels whose closing a mutex guards.
func closeOnce(c chan struct{}) {
	if !isClosed(c) {
		close(c)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// fail ends a Pod that must not go on.
func (w *worker) fail(reason, message string) {
	w.mu.Lock()
	w.failed, w.reason, w.message = true, reason, message
	grace := gracePeriod(w.pod)
	w.mu.Unlock()
	w.stopContainers(grace)
}

func gracePeriod(pod *corev1.Pod) time.Duration {
	seconds := int64(30)
	if pod.DeletionGracePeriodSeconds != nil {
		seconds = *pod.DeletionGracePeriodSeconds
	} else if pod.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}

// watchDeadline fails the Pod when it has been active for too long.
func (w *worker) watchDeadline(ctx context.Context) {
	pod := w.current()
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return
	}
	left := w.started.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second).Sub(w.a.cfg.Clock.Now())
	select {
	case <-w.a.cfg.Clock.After(left):
	case <-ctx.Done():
		return
	}
	w.mu.Lock()
	over := w.ended
	w.mu.Unlock()
	if over {
		return
	}
	message := "Pod was active on the node longer than the specified deadline"
	podEvent(w.a.recorder, pod, nil, corev1.EventTypeNormal, eventDeadline, "%s", message)
	w.fail("DeadlineExceeded", message)
}
