// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
)

// worker runs one Pod, from its first sight until nothing of it is left:
//
//	volumes -> network -> init containers -> containers -> ended -> removed
//
// stop cuts in everywhere; a Pod that has ended or was failed waits for it, so
// that its logs can be read. Containers are run by loops, a goroutine each; the
// worker's own goroutine waits for all of them.
type worker struct {
	a       *Agent
	dir     string
	volumes *volumeSet
	started metav1.Time
	// previous is the status the Pod had in the API when the worker began.
	previous corev1.PodStatus

	halt         chan struct{} // closed when the containers must end
	gone         chan struct{} // closed when the worker must end too
	stopSidecars chan struct{} // closed when the other containers are gone
	kill         chan struct{} // closed when there is no more grace
	done         chan struct{} // closed when nothing is left
	dirty        chan struct{} // holds one token when the status must be published

	mu         sync.Mutex
	pod        *corev1.Pod
	refs       references
	changed    chan struct{} // closed and replaced when pod, Secret or ConfigMap changes
	net        *netns.Pod
	ip         string
	networked  bool
	init       []corev1.ContainerStatus
	containers []corev1.ContainerStatus
	runs       map[string]*run            // by container, the present or last run
	logs       map[string][]*containerLog // by container, the last two
	ended      bool
	failed     bool
	reason     string
	message    string
	removed    bool // the Pod is gone from the API
	finalize   bool // the Pod is to be deleted from the API at the end
}

func (a *Agent) newWorker(pod *corev1.Pod) *worker {
	dir := filepath.Join(a.nodeDir(), "pods", string(pod.UID))
	w := &worker{
		a: a, dir: dir, pod: pod, refs: referencesOf(pod), started: a.nowOf(), previous: pod.Status,
		halt: make(chan struct{}), gone: make(chan struct{}), stopSidecars: make(chan struct{}), kill: make(chan struct{}),
		done: make(chan struct{}), dirty: make(chan struct{}, 1), changed: make(chan struct{}),
		runs: map[string]*run{}, logs: map[string][]*containerLog{},
	}
	w.volumes = &volumeSet{
		dir: filepath.Join(dir, "volumes"), hostPaths: filepath.Join(a.nodeDir(), "hostpath"),
		objects: a, tokens: a, allocatable: a.capacity, now: a.cfg.Clock.Now, ids: a.ids,
	}
	first := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		first = "PodInitializing"
	}
	w.init = waitingStatuses(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, "PodInitializing")
	w.containers = waitingStatuses(pod.Spec.Containers, pod.Status.ContainerStatuses, first)
	return w
}

// run is the life of the Pod. It returns when nothing of it is left on this
// machine, and the API knows if it should.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	var helpers sync.WaitGroup
	helpCtx, stopHelpers := context.WithCancel(ctx)
	helpers.Go(func() { w.publishLoop(helpCtx) })
	helpers.Go(func() { w.watchDeadline(helpCtx) })
	// The agent's end is the end of its Pods, with a moment to say goodbye.
	unhook := context.AfterFunc(ctx, func() { w.stop(shutdownGrace, false) })
	w.publish()

	// From here on it is stop that counts: the containers must be waited for.
	w.live(context.WithoutCancel(ctx))
	w.end()
	<-w.gone
	stopHelpers()
	helpers.Wait()
	unhook()
	w.remove(ctx)
}

// shutdownGrace is what Pods get when the agent is stopped.
const shutdownGrace = time.Second

// live sets the Pod up and runs its containers until they have ended.
func (w *worker) live(ctx context.Context) {
	ctx, cancel := cancelOn(ctx, w.halt)
	defer cancel()
	if !w.setUpVolumes(ctx) || !w.setUpNetwork(ctx) {
		return
	}
	var refresher sync.WaitGroup
	defer refresher.Wait()
	refreshCtx, stopRefresh := context.WithCancel(ctx)
	defer stopRefresh()
	refresher.Go(func() { w.refreshVolumes(refreshCtx) })
	w.runContainers(ctx)
}

// cancelOn returns a context that ends with stop.
func cancelOn(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// runContainers runs init containers in turn, then the others side by side.
func (w *worker) runContainers(ctx context.Context) {
	pod := w.current()
	var sidecars sync.WaitGroup
	sideCtx, stopSide := cancelOn(context.WithoutCancel(ctx), w.stopSidecars)
	defer stopSide()
	defer sidecars.Wait()
	defer close(w.stopSidecars)

	for i, c := range pod.Spec.InitContainers {
		l := w.newLoop(c, i, true)
		if isSidecar(c) {
			sidecars.Go(func() { l.run(sideCtx) })
			select {
			case <-l.up:
			case <-ctx.Done():
				return
			}
			continue
		}
		if code, ok := l.run(ctx); !ok || code != 0 {
			return
		}
	}
	w.mu.Lock()
	for i := range w.containers {
		if wait := w.containers[i].State.Waiting; wait != nil && wait.Reason == "PodInitializing" {
			w.containers[i].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		}
	}
	w.mu.Unlock()
	var apps sync.WaitGroup
	for i, c := range pod.Spec.Containers {
		apps.Go(func() { w.newLoop(c, i, false).run(ctx) })
	}
	apps.Wait()
}

// end marks the Pod as ended and gives its network back.
func (w *worker) end() {
	w.mu.Lock()
	w.ended, w.networked = true, false
	uid := string(w.pod.UID)
	w.mu.Unlock()
	if err := w.a.cfg.Network.Del(uid); err != nil {
		w.a.cfg.Log.Error("remove network of Pod", "pod", w.name(), "err", err)
	}
	w.publish()
}

// remove tells the API that the Pod is gone, if it waits for that, and deletes
// what is left on disk.
func (w *worker) remove(ctx context.Context) {
	w.mu.Lock()
	finalize := w.finalize && !w.removed
	w.mu.Unlock()
	if finalize {
		w.a.finalizePod(ctx, w)
	}
	for _, logs := range w.logs {
		for _, l := range logs {
			if err := l.close(); err != nil {
				w.a.cfg.Log.Error("close log", "pod", w.name(), "err", err)
			}
		}
	}
	if err := netns.RemoveTree(w.dir); err != nil {
		w.a.cfg.Log.Error("remove files of Pod", "pod", w.name(), "err", err)
	}
}

// update takes over a changed Pod.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	w.pod, w.refs = pod, referencesOf(pod)
	w.mu.Unlock()
	w.poke()
	w.publish()
}

// poke wakes whatever waits for a change.
func (w *worker) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *worker) refersTo(namespace, secret, configMap string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod.Namespace == namespace &&
		(secret != "" && slices.Contains(w.refs.secrets, secret) || configMap != "" && slices.Contains(w.refs.configMaps, configMap))
}

func (w *worker) current() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

func (w *worker) changes() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *worker) name() string {
	pod := w.current()
	return pod.Namespace + "/" + pod.Name
}

// makeDir makes a directory below the Pod's own.
func (w *worker) makeDir(parts ...string) (string, error) {
	dir := filepath.Join(append([]string{w.dir}, parts...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // containers of any user read it
		return "", errors.Join(errors.New("make directory of Pod"), err)
	}
	return dir, nil
}
