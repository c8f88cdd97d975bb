// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
)

// The methods of this file are virtual-kubelet's provider interface: it calls
// them for each Pod that is bound to the Node, changed or deleted.

func podKey(namespace, name string) string { return namespace + "/" + name }

// CreatePod starts a worker for the Pod.
func (a *Agent) CreatePod(_ context.Context, pod *corev1.Pod) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	key := podKey(pod.Namespace, pod.Name)
	w := a.newWorker(pod)
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.workers[key]; ok {
		// The old Pod is gone from the API, or this one could not exist.
		a.dying[old] = true
		old.stop(0, false)
	}
	a.workers[key] = w
	a.running.Go(func() {
		w.run(a.ctx)
		a.forget(key, w)
	})
	return nil
}

func (a *Agent) forget(key string, w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.workers[key] == w {
		delete(a.workers, key)
	}
	delete(a.dying, w)
}

// UpdatePod tells the worker of a changed Pod, or replaces it when the Pod is
// another of the same name.
func (a *Agent) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	w := a.worker(pod.Namespace, pod.Name)
	if w == nil || w.current().UID != pod.UID {
		return a.CreatePod(ctx, pod)
	}
	w.update(pod)
	return nil
}

// DeletePod begins to end the Pod and returns at once; the worker tells the API
// when it is done.
func (a *Agent) DeletePod(_ context.Context, pod *corev1.Pod) error {
	w := a.worker(pod.Namespace, pod.Name)
	if w == nil || w.current().UID != pod.UID {
		return errdefs.NotFoundf("pod %s/%s is not on node %s", pod.Namespace, pod.Name, a.cfg.NodeName)
	}
	if !a.inAPI(pod) {
		// Deleted by force: nobody waits for it any more.
		w.stop(0, false)
		return nil
	}
	w.update(pod)
	w.stop(gracePeriod(pod), true)
	return nil
}

// inAPI says whether the Pod still exists, as far as the agent has heard.
func (a *Agent) inAPI(pod *corev1.Pod) bool {
	present, err := a.informers.podFactory.Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	return err == nil && present.UID == pod.UID
}

func (a *Agent) worker(namespace, name string) *worker {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.workers[podKey(namespace, name)]
}

// all returns the workers there are.
func (a *Agent) all() []*worker {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*worker
	for _, w := range a.workers {
		list = append(list, w)
	}
	return list
}

// GetPod returns the Pod as it was last given, with its present status.
func (a *Agent) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	w := a.worker(namespace, name)
	if w == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not on node %s", namespace, name, a.cfg.NodeName)
	}
	return w.snapshot(), nil
}

// GetPodStatus returns the present status of a Pod.
func (a *Agent) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := a.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods returns all Pods of the agent.
func (a *Agent) GetPods(context.Context) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, w := range a.all() {
		pods = append(pods, w.snapshot())
	}
	return pods, nil
}

// NotifyPods keeps the function that sends a Pod's status to the API.
func (a *Agent) NotifyPods(_ context.Context, notify func(*corev1.Pod)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notifyC = notify
}

func (a *Agent) notify(pod *corev1.Pod) {
	a.mu.Lock()
	notify := a.notifyC
	a.mu.Unlock()
	notify(pod)
}

// secretChanged and configMapChanged wake the Pods that refer to the object.
func (a *Agent) secretChanged(namespace, name string) {
	for _, w := range a.all() {
		if w.refersTo(namespace, name, "") {
			w.poke()
		}
	}
}

func (a *Agent) configMapChanged(namespace, name string) {
	for _, w := range a.all() {
		if w.refersTo(namespace, "", name) {
			w.poke()
		}
	}
}

// runOf returns the worker of a Pod and the present run of a container.
func (a *Agent) runOf(namespace, name, containerName string) (*worker, *run, error) {
	w := a.worker(namespace, name)
	if w == nil {
		return nil, nil, errdefs.NotFoundf("pod %s/%s is not on node %s", namespace, name, a.cfg.NodeName)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[containerName]
	if r == nil {
		return nil, nil, errdefs.NotFoundf("container %q in pod %s/%s has not started", containerName, namespace, name)
	}
	return w, r, nil
}

// streamIdle is how long an exec or port-forward connection may be silent.
const streamIdle = 4 * time.Hour
