// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/node/image"
)

// Reasons of waiting containers, as the kubelet writes them.
const (
	waitCreating     = "ContainerCreating"
	waitCrashLoop    = "CrashLoopBackOff"
	waitErrPull      = "ErrImagePull"
	waitPullBackOff  = "ImagePullBackOff"
	waitNeverPull    = "ErrImageNeverPull"
	waitInvalidImage = "InvalidImageName"
	waitConfigError  = "CreateContainerConfigError"
	waitRunError     = "RunContainerError"
)

// configRetry is the wait before a container whose configuration was refused is
// looked at again, unless something changes.
const configRetry = 10 * time.Second

// loop runs one container again and again, as its restart policy says:
//
//	waiting -> image -> configuration -> running -> terminated -.
//	   ^                                                        |
//	   `---------- CrashLoopBackOff <------- restart -----------'
//
// The container's status in the worker shows where it is.
type loop struct {
	w     *worker
	name  string
	index int
	init  bool
	up    chan struct{} // closed when the container has started for the first time

	crash, pull backoff
	runs        int // how many times it was started by this agent
}

func (w *worker) newLoop(c corev1.Container, index int, init bool) *loop {
	scale := w.a.cfg.BackoffScale
	return &loop{
		w: w, name: c.Name, index: index, init: init, up: make(chan struct{}),
		crash: backoff{scale: scale}, pull: backoff{scale: scale},
	}
}

// spec is the container as the Pod has it now: its image may change.
func (l *loop) spec() (*corev1.Pod, corev1.Container) {
	pod := l.w.current()
	if l.init {
		return pod, pod.Spec.InitContainers[l.index]
	}
	return pod, pod.Spec.Containers[l.index]
}

// set changes the container's status and publishes it.
func (l *loop) set(change func(s *corev1.ContainerStatus)) {
	l.w.mu.Lock()
	list := l.w.containers
	if l.init {
		list = l.w.init
	}
	change(&list[l.index])
	l.w.mu.Unlock()
	l.w.publish()
}

func (l *loop) setWaiting(reason, message string) {
	l.set(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.Ready, s.Started = false, new(false)
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func (l *loop) event(kind, reason, format string, args ...any) {
	pod, c := l.spec()
	podEvent(l.w.a.recorder, pod, &c, kind, reason, format, args...)
}

// run returns the last exit code, and false if it was stopped before there was
// one that counts.
func (l *loop) run(ctx context.Context) (code int32, ok bool) {
	for {
		img, ok := l.image(ctx)
		if !ok {
			return 0, false
		}
		launch, ok := l.configure(ctx, img)
		if !ok {
			return 0, false
		}
		ended := l.once(ctx, launch)
		if ctx.Err() != nil {
			return ended.ExitCode, true
		}
		if !l.restarts(ended.ExitCode) {
			return ended.ExitCode, true
		}
		if !l.backOff(ctx, ended) {
			return ended.ExitCode, true
		}
	}
}

// restarts says whether the container is started again after this exit code.
func (l *loop) restarts(code int32) bool {
	pod, c := l.spec()
	return shouldRestart(pod.Spec.RestartPolicy, c, l.init, code)
}

func shouldRestart(policy corev1.RestartPolicy, c corev1.Container, init bool, code int32) bool {
	switch {
	case init && isSidecar(c):
		return true
	case policy == corev1.RestartPolicyNever:
		return false
	case policy == corev1.RestartPolicyOnFailure || init:
		return code != 0
	}
	return true
}

// backOff waits before a restart; false means it was stopped.
func (l *loop) backOff(ctx context.Context, ended corev1.ContainerStateTerminated) bool {
	delay := l.crash.restart(ended.FinishedAt.Sub(ended.StartedAt.Time))
	if delay == 0 {
		return true
	}
	pod, c := l.spec()
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, l.name, podFullName(pod))
	if ended.Reason == reasonStartError {
		// First the reason itself, as a kubelet does until it looks again.
		l.setWaiting(waitRunError, ended.Message)
		if !l.w.wait(ctx, delay/5, nil) {
			return false
		}
	}
	l.setWaiting(waitCrashLoop, message)
	l.event(corev1.EventTypeWarning, eventBackOff, "Back-off restarting failed container %s in pod %s", l.name, podFullName(pod))
	return l.waitUnless(ctx, delay, c)
}

// waitUnless waits for d, or until the container's image is another; false means
// it was stopped.
func (l *loop) waitUnless(ctx context.Context, d time.Duration, before corev1.Container) bool {
	until := l.w.a.cfg.Clock.Now().Add(d)
	for {
		changed := l.w.changes()
		if _, now := l.spec(); now.Image != before.Image {
			l.crash.reset()
			l.pull.reset()
			return ctx.Err() == nil
		}
		left := until.Sub(l.w.a.cfg.Clock.Now())
		if left <= 0 {
			return ctx.Err() == nil
		}
		if !l.w.wait(ctx, left, changed) {
			return false
		}
	}
}

// image gets the image by the pull policy, however long it takes; false means
// it was stopped.
func (l *loop) image(ctx context.Context) (*image.Image, bool) {
	for {
		_, c := l.spec()
		img, err := l.tryImage(ctx, c)
		if err == nil {
			l.pull.reset()
			return img, ctx.Err() == nil
		}
		if ctx.Err() != nil {
			return nil, false
		}
		if !l.imageFailed(ctx, c, err) {
			return nil, false
		}
	}
}

// errNeverPull says that the policy forbids to pull an image that is not there.
var errNeverPull = errors.New("is not present with pull policy of Never")

func (l *loop) tryImage(ctx context.Context, c corev1.Container) (*image.Image, error) {
	store := l.w.a.images
	present, err := store.Present(c.Image)
	if err != nil {
		return nil, err
	}
	switch {
	case present != nil && c.ImagePullPolicy != corev1.PullAlways:
		l.event(corev1.EventTypeNormal, eventPulled, "Container image %q already present on machine", c.Image)
		return present, nil
	case c.ImagePullPolicy == corev1.PullNever:
		return nil, fmt.Errorf("container image %q %w", c.Image, errNeverPull)
	}
	l.event(corev1.EventTypeNormal, eventPulling, "Pulling image %q", c.Image)
	begin := l.w.a.cfg.Clock.Now()
	img, err := store.Pull(ctx, c.Image)
	if err != nil {
		return nil, err
	}
	took := l.w.a.cfg.Clock.Since(begin).Round(time.Millisecond)
	l.event(corev1.EventTypeNormal, eventPulled, "Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
		c.Image, took, took, img.Size)
	return img, nil
}

// imageFailed shows why there is no image and waits; false means it was stopped.
func (l *loop) imageFailed(ctx context.Context, c corev1.Container, err error) bool {
	switch {
	case errors.Is(err, errNeverPull):
		l.setWaiting(waitNeverPull, err.Error())
		l.event(corev1.EventTypeWarning, eventImageMissing, "%s", err)
		return l.waitUnless(ctx, l.pull.next(), c)
	case errors.Is(err, image.ErrInvalidName):
		l.setWaiting(waitInvalidImage, err.Error())
		l.event(corev1.EventTypeWarning, waitInvalidImage, "Failed to apply default image tag %q: %s", c.Image, err)
		return l.waitUnless(ctx, l.pull.next(), c)
	}
	l.setWaiting(waitErrPull, err.Error())
	l.event(corev1.EventTypeWarning, eventFailed, "Failed to pull image %q: %s", c.Image, err)
	l.event(corev1.EventTypeWarning, eventFailed, "Error: %s", waitErrPull)
	delay := l.pull.next()
	if !l.waitUnless(ctx, delay/5, c) {
		return false
	}
	if _, now := l.spec(); now.Image != c.Image {
		return true
	}
	l.setWaiting(waitPullBackOff, fmt.Sprintf("Back-off pulling image %q: %s: %s", c.Image, waitErrPull, err))
	l.event(corev1.EventTypeNormal, eventBackOff, "Back-off pulling image %q", c.Image)
	l.event(corev1.EventTypeWarning, eventFailed, "Error: %s", waitPullBackOff)
	return l.waitUnless(ctx, delay-delay/5, c)
}

// configure makes the launch, again and again while the configuration is
// refused; false means it was stopped.
func (l *loop) configure(ctx context.Context, img *image.Image) (*launch, bool) {
	for {
		changed := l.w.changes()
		pod, c := l.spec()
		launch, err := l.w.newLaunch(ctx, pod, c, img, l.runs)
		if err == nil {
			return launch, ctx.Err() == nil
		}
		if ctx.Err() != nil {
			return nil, false
		}
		l.setWaiting(waitConfigError, err.Error())
		l.event(corev1.EventTypeWarning, eventFailed, "Error: %s", err)
		if !l.w.wait(ctx, l.w.a.cfg.scaled(configRetry), changed) {
			return nil, false
		}
	}
}

// markStarted and markReady are what probes report.
func (l *loop) markStarted() {
	l.set(func(s *corev1.ContainerStatus) { s.Started = new(true) })
	if !isClosed(l.up) {
		close(l.up)
	}
}

func (l *loop) markReady(ready bool) {
	if l.isReady() == ready {
		return // nothing to publish
	}
	l.set(func(s *corev1.ContainerStatus) { s.Ready = ready && s.State.Running != nil })
}

func (l *loop) isReady() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.init {
		return l.w.init[l.index].Ready
	}
	return l.w.containers[l.index].Ready
}

func (l *loop) setRunning(id string, launch *launch, at metav1.Time) {
	l.runs++
	l.set(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		if l.runs > 1 {
			s.RestartCount++
		}
		s.ContainerID, s.Image, s.ImageID = id, launch.spec.Image, launch.image.ID
		s.Ready, s.Started = false, new(false)
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
	})
}

func (l *loop) setTerminated(t corev1.ContainerStateTerminated) {
	l.set(func(s *corev1.ContainerStatus) {
		s.Started = new(false)
		s.State = corev1.ContainerState{Terminated: &t}
		// An init container that is done is what "ready" means for it.
		s.Ready = l.init && t.ExitCode == 0
	})
}

// memoryLimit returns the limit of a container, or 0.
func memoryLimit(c corev1.Container) int64 {
	limit, ok := c.Resources.Limits[corev1.ResourceMemory]
	if !ok {
		return 0
	}
	return limit.Value()
}
