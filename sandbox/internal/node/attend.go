// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

const (
	// probeEager is the wait between attempts right after a start, for probes
	// that wait for a container to come up: until one period has passed failures
	// don't count, so that a manager is ready when it is and not a period later.
	probeEager = 500 * time.Millisecond
	// probeOutput is how much of a command's output goes into an event.
	probeOutput = 10 << 10
)

// attend does what a running container needs from outside: the postStart hook,
// then the startup probe, then the others. It ends with ctx.
func (l *loop) attend(ctx context.Context, r *run, kill chan<- killOrder) {
	pod, c := l.spec()
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		if err := l.hook(ctx, r, *c.Lifecycle.PostStart); err != nil && ctx.Err() == nil {
			l.event(corev1.EventTypeWarning, eventPostStart, "PostStartHook failed: %s", err)
			kill <- killOrder{"FailedPostStartHook", gracePeriod(pod)}
			return
		}
	}
	if c.StartupProbe != nil && !l.startup(ctx, r, c, kill) {
		return
	}
	if ctx.Err() != nil {
		return
	}
	l.markStarted()
	var probes sync.WaitGroup
	defer probes.Wait()
	if c.LivenessProbe != nil {
		probes.Go(func() { l.liveness(ctx, r, c, kill) })
	}
	if c.ReadinessProbe == nil {
		l.markReady(true)
		return
	}
	p := l.prober(r, *c.ReadinessProbe, "Readiness", c)
	p.eager = true
	p.run(ctx, func(ok bool) bool {
		l.markReady(ok)
		return true
	})
}

// startup waits for the startup probe; false means the container is done for.
func (l *loop) startup(ctx context.Context, r *run, c corev1.Container, kill chan<- killOrder) bool {
	p := l.prober(r, *c.StartupProbe, "Startup", c)
	p.eager = true
	started := false
	p.run(ctx, func(ok bool) bool {
		started = ok
		if !ok {
			kill <- l.probeKill("startup", *c.StartupProbe)
		}
		return false
	})
	return started
}

func (l *loop) liveness(ctx context.Context, r *run, c corev1.Container, kill chan<- killOrder) {
	l.prober(r, *c.LivenessProbe, "Liveness", c).run(ctx, func(ok bool) bool {
		if !ok {
			kill <- l.probeKill("liveness", *c.LivenessProbe)
		}
		return ok
	})
}

func (l *loop) probeKill(kind string, probe corev1.Probe) killOrder {
	pod, _ := l.spec()
	grace := gracePeriod(pod)
	if probe.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	return killOrder{fmt.Sprintf("Container %s failed %s probe, will be restarted", l.name, kind), grace}
}

// prober repeats one probe.
type prober struct {
	l      *loop
	probe  corev1.Probe
	kind   string
	target probeTarget
	begin  time.Time
	eager  bool
}

func (l *loop) prober(r *run, probe corev1.Probe, kind string, c corev1.Container) *prober {
	l.w.mu.Lock()
	ip := l.w.ip
	l.w.mu.Unlock()
	target := probeTarget{ip: ip, container: c, exec: func(ctx context.Context, command []string) (string, int, error) {
		return l.w.execOutput(ctx, r, command)
	}}
	return &prober{l: l, probe: probe, kind: kind, target: target, begin: l.w.a.cfg.Clock.Now()}
}

// run reports each time a threshold is reached; it goes on while report says so
// and ctx lasts.
func (p *prober) run(ctx context.Context, report func(ok bool) bool) {
	period := seconds(p.probe.PeriodSeconds, 10)
	if !p.l.w.wait(ctx, seconds(p.probe.InitialDelaySeconds, 0), nil) {
		return
	}
	good, bad := int32(0), int32(0)
	for {
		err := attempt(ctx, p.probe.ProbeHandler, p.target, seconds(p.probe.TimeoutSeconds, 1))
		if ctx.Err() != nil {
			return
		}
		delay := period
		switch {
		case err == nil:
			good, bad = good+1, 0
			if good >= max(p.probe.SuccessThreshold, 1) && !report(true) {
				return
			}
			p.eager = false
		case p.eager && p.l.w.a.cfg.Clock.Since(p.begin) < period:
			delay = probeEager
		default:
			good, bad = 0, bad+1
			p.l.event(corev1.EventTypeWarning, eventUnhealthy, "%s probe failed: %s", p.kind, err)
			if bad >= max(p.probe.FailureThreshold, 1) && !report(false) {
				return
			}
		}
		if !p.l.w.wait(ctx, delay, nil) {
			return
		}
	}
}

func seconds(n, otherwise int32) time.Duration {
	if n <= 0 {
		n = otherwise
	}
	return time.Duration(n) * time.Second
}

// hook runs a lifecycle hook.
func (l *loop) hook(ctx context.Context, r *run, h corev1.LifecycleHandler) error {
	_, c := l.spec()
	target := l.prober(r, corev1.Probe{}, "", c).target
	switch {
	case h.Sleep != nil:
		l.w.wait(ctx, time.Duration(h.Sleep.Seconds)*time.Second, nil)
		return nil
	case h.Exec != nil:
		output, code, err := l.w.execOutput(ctx, r, h.Exec.Command)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, output)
		}
		return err
	case h.HTTPGet != nil:
		return attemptHTTP(ctx, h.HTTPGet, target)
	}
	return nil
}

// preStop runs the preStop hook, if there is one.
func (l *loop) preStop(ctx context.Context, r *run) {
	_, c := l.spec()
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return
	}
	if err := l.hook(ctx, r, *c.Lifecycle.PreStop); err != nil && ctx.Err() == nil {
		l.event(corev1.EventTypeWarning, eventPreStop, "PreStopHook failed: %s", err)
	}
}

// execOutput runs a command in a running container and returns what it wrote.
func (w *worker) execOutput(ctx context.Context, r *run, command []string) (string, int, error) {
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return "", 0, fmt.Errorf("make pipe: %w", err)
	}
	var output bytes.Buffer
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(&output, io.LimitReader(readEnd, probeOutput))
		// Closing makes a command that writes more fail rather than hang.
		read <- errors.Join(err, readEnd.Close())
	}()
	code, err := w.exec(ctx, r, command, false, container.Streams{Stdout: writeEnd, Stderr: writeEnd})
	err = errors.Join(err, writeEnd.Close(), <-read)
	return output.String(), code, err
}

// exec runs a command in a running container as the container's own user.
func (w *worker) exec(ctx context.Context, r *run, command []string, tty bool, streams container.Streams) (int, error) {
	w.mu.Lock()
	process := r.process
	w.mu.Unlock()
	if process == nil || isClosed(r.ended) {
		return 0, errNotRunning
	}
	p := r.launch.what.Process
	p.Args = command
	code, err := w.a.runtime.Exec(ctx, process.PID, p, tty, streams)
	if failed, ok := errors.AsType[*container.StartError](err); ok {
		return 126, fmt.Errorf("command %q: %s", command, failed.Message)
	}
	return code, err
}
