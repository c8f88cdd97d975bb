// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// Reasons of terminated containers, as the kubelet writes them.
const (
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonOOMKilled  = "OOMKilled"
	reasonStartError = "StartError"
	exitStartError   = 128
)

// Limits of a termination message, as the kubelet's.
const (
	terminationMessageSize = 4096
	terminationLogSize     = 2048
	terminationLogLines    = 80
)

// run is one life of a container.
type run struct {
	id      string
	launch  *launch
	log     *containerLog
	process *container.Running
	begin   metav1.Time
	oom     atomic.Bool
	ended   chan struct{} // closed when exit is set
	exit    container.Exit
	waitErr error
	output  sync.WaitGroup
}

// once starts the container and stays until it has ended.
func (l *loop) once(ctx context.Context, launch *launch) corev1.ContainerStateTerminated {
	r := &run{id: newContainerID(), launch: launch, ended: make(chan struct{}), begin: l.w.a.nowOf()}
	l.event(corev1.EventTypeNormal, eventCreated, "Container created")
	if err := l.start(r); err != nil {
		ended := corev1.ContainerStateTerminated{
			ExitCode: exitStartError, Reason: reasonStartError, ContainerID: r.id,
			Message: "failed to start container: " + startMessage(err), StartedAt: r.begin, FinishedAt: l.w.a.nowOf(),
		}
		l.event(corev1.EventTypeWarning, eventFailed, "Error: %s", ended.Message)
		l.runs++
		l.set(func(s *corev1.ContainerStatus) {
			s.ContainerID, s.Image, s.ImageID = r.id, launch.spec.Image, launch.image.ID
			if l.runs > 1 {
				s.RestartCount++
			}
		})
		l.setTerminated(ended)
		l.cleanUp(r)
		return ended
	}
	l.event(corev1.EventTypeNormal, eventStarted, "Container started")
	l.setRunning(r.id, launch, r.begin)
	l.supervise(ctx, r)
	ended := l.terminated(context.WithoutCancel(ctx), r)
	l.setTerminated(ended)
	l.cleanUp(r)
	return ended
}

// startMessage is what a user needs of a StartError.
func startMessage(err error) string {
	if failed, ok := errors.AsType[*container.StartError](err); ok {
		return failed.Message
	}
	return err.Error()
}

func newContainerID() string {
	id := make([]byte, 16)
	rand.Read(id)
	return "capstan://" + hex.EncodeToString(id)
}

// start makes the log and the directories, and starts the process.
func (l *loop) start(r *run) (err error) {
	if err := os.MkdirAll(r.launch.what.Work, 0o755); err != nil { //nolint:gosec // containers of any user pass through
		return fmt.Errorf("make container directory: %w", err)
	}
	if err := os.WriteFile(r.launch.termination, nil, 0o666); err != nil { //nolint:gosec // any user of the container writes it
		return fmt.Errorf("make termination log: %w", err)
	}
	if err := os.Chmod(r.launch.termination, 0o666); err != nil { //nolint:gosec // whatever the umask
		return fmt.Errorf("make termination log: %w", err)
	}
	if r.log, err = createLog(r.launch.logPath, l.w.a.cfg.Clock); err != nil {
		return err
	}
	l.w.keepRun(l.name, r)
	stdout, err := l.w.pipe(r, "stdout")
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := l.w.pipe(r, "stderr")
	if err != nil {
		return err
	}
	defer stderr.Close()
	r.begin = l.w.a.nowOf()
	process, err := l.w.a.runtime.Start(r.launch.what, l.w.netFile(), container.Streams{Stdout: stdout, Stderr: stderr})
	if err != nil {
		return err
	}
	l.w.mu.Lock()
	r.process = process
	l.w.mu.Unlock()
	go func() {
		defer close(r.ended)
		r.exit, r.waitErr = process.Wait()
	}()
	return nil
}

// pipe returns the end the container writes to; the other goes to the log.
func (w *worker) pipe(r *run, stream string) (*os.File, error) {
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	r.output.Go(func() {
		defer readEnd.Close()
		if err := r.log.copyFrom(readEnd, stream); err != nil {
			w.a.cfg.Log.Error("copy output of container", "pod", w.name(), "container", r.launch.spec.Name, "err", err)
		}
	})
	return writeEnd, nil
}

func (w *worker) netFile() *os.File {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.net == nil {
		return nil
	}
	return w.net.File()
}

// keepRun remembers the run, and the log of the one before; older logs go.
func (w *worker) keepRun(name string, r *run) {
	w.mu.Lock()
	w.runs[name] = r
	logs := append(w.logs[name], r.log)
	var old *containerLog
	if len(logs) > 2 {
		old, logs = logs[0], logs[1:]
	}
	w.logs[name] = logs
	w.mu.Unlock()
	if old == nil {
		return
	}
	if err := old.remove(); err != nil {
		w.a.cfg.Log.Error("remove old log", "pod", w.name(), "container", name, "err", err)
	}
}

// supervise stays with a running container until it has ended: by itself, for
// its memory, its probes, a new image, or because ctx ends.
func (l *loop) supervise(ctx context.Context, r *run) {
	watchCtx, stopWatch := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stopWatch()
	if limit := memoryLimit(r.launch.spec); limit > 0 {
		forget := l.w.a.memory.watch(r.process.PID, limit, func() {
			r.oom.Store(true)
			l.signal(r, syscall.SIGKILL)
		})
		defer forget()
	}
	kill := make(chan killOrder, 4)
	helpers.Go(func() { l.attend(watchCtx, r, kill) })
	helpers.Go(func() { l.watchImage(watchCtx, r, kill) })
	select {
	case <-r.ended:
	case order := <-kill:
		l.event(corev1.EventTypeNormal, eventKilling, "%s", order.message)
		l.terminate(ctx, r, order.grace)
	case <-ctx.Done():
		l.event(corev1.EventTypeNormal, eventKilling, "Stopping container %s", l.name)
		l.markReady(false)
		l.terminate(ctx, r, gracePeriod(l.w.current()))
	}
	<-r.ended
}

// killOrder ends a run before its time.
type killOrder struct {
	message string
	grace   time.Duration
}

// terminate ends a run: preStop hook, SIGTERM, and SIGKILL after grace or when
// the whole Pod has none left.
func (l *loop) terminate(ctx context.Context, r *run, grace time.Duration) {
	timer := l.w.a.cfg.Clock.NewTimer(grace)
	defer timer.Stop()
	hookDone := make(chan struct{})
	hookCtx, cancelHook := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(hookDone)
		l.preStop(hookCtx, r)
	}()
	defer func() { cancelHook(); <-hookDone }()
	signalled := hookDone
	for {
		select {
		case <-r.ended:
			return
		case <-signalled:
			l.signal(r, syscall.SIGTERM)
			signalled = nil
		case <-timer.C():
			l.signal(r, syscall.SIGKILL)
			return
		case <-l.w.kill:
			l.signal(r, syscall.SIGKILL)
			return
		}
	}
}

func (l *loop) signal(r *run, s syscall.Signal) {
	if err := r.process.Signal(s); err != nil {
		l.w.a.cfg.Log.Error("signal container", "pod", l.w.name(), "container", l.name, "err", err)
	}
}

// watchImage orders a restart when the Pod names another image.
func (l *loop) watchImage(ctx context.Context, r *run, kill chan<- killOrder) {
	for {
		changed := l.w.changes()
		pod, c := l.spec()
		if c.Image != r.launch.spec.Image {
			kill <- killOrder{fmt.Sprintf("Container %s definition changed, will be restarted", l.name), gracePeriod(pod)}
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// terminated says how a run ended.
func (l *loop) terminated(ctx context.Context, r *run) corev1.ContainerStateTerminated {
	r.output.Wait()
	t := corev1.ContainerStateTerminated{
		ExitCode: int32(r.exit.Code), ContainerID: r.id, StartedAt: r.begin, FinishedAt: l.w.a.nowOf(), //nolint:gosec // 0..255
	}
	switch {
	case r.waitErr != nil:
		t.ExitCode, t.Reason, t.Message = 137, "ContainerStatusUnknown", r.waitErr.Error()
		return t
	case r.oom.Load():
		t.Reason = reasonOOMKilled
	case t.ExitCode == 0:
		t.Reason = reasonCompleted
	default:
		t.Reason = reasonError
	}
	message, err := terminationMessage(ctx, r, t.ExitCode)
	if err != nil {
		l.w.a.cfg.Log.Error("read termination message", "pod", l.w.name(), "container", l.name, "err", err)
	}
	t.Message = message
	return t
}

func terminationMessage(ctx context.Context, r *run, code int32) (string, error) {
	data, err := os.ReadFile(r.launch.termination)
	if err != nil {
		return "", err
	}
	if len(data) > 0 {
		return string(data[:min(len(data), terminationMessageSize)]), nil
	}
	if code == 0 || r.launch.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return "", nil
	}
	return r.log.lastLines(ctx, terminationLogLines, terminationLogSize)
}

// cleanUp removes what the container wrote outside of volumes.
func (l *loop) cleanUp(r *run) {
	r.output.Wait()
	var err error
	if r.log != nil {
		err = r.log.close()
	}
	err = errors.Join(err, netns.RemoveTree(r.launch.what.Work))
	if err != nil {
		l.w.a.cfg.Log.Error("clean up after container", "pod", l.w.name(), "container", l.name, "dir", filepath.Base(r.launch.dir), "err", err)
	}
}
