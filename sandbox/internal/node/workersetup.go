// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Waits between attempts to set a Pod up, as the kubelet's.
const (
	setupRetryFirst = 500 * time.Millisecond
	setupRetryMax   = 2 * time.Minute
	// refreshRetry is the wait after volumes could not be brought up to date.
	refreshRetry = 20 * time.Second
)

// wait waits for d or a change; false means that ctx has ended.
func (w *worker) wait(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	timer := w.a.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-changed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// setUpVolumes tries until all volumes are there; false means it was stopped.
func (w *worker) setUpVolumes(ctx context.Context) bool {
	for delay := setupRetryFirst; ; delay = min(2*delay, setupRetryMax) {
		changed := w.changes()
		pod := w.current()
		err := w.volumes.sync(ctx, pod)
		if err == nil {
			return ctx.Err() == nil
		}
		if ctx.Err() != nil {
			return false
		}
		podEvent(w.a.recorder, pod, nil, corev1.EventTypeWarning, eventFailedMount, "%s", err)
		if !w.wait(ctx, w.a.cfg.scaled(delay), changed) {
			return false
		}
	}
}

// refreshVolumes brings volumes up to date when something changes and before
// tokens expire.
func (w *worker) refreshVolumes(ctx context.Context) {
	const never = 1000 * time.Hour
	for {
		changed := w.changes()
		pod := w.current()
		delay := never
		if err := w.volumes.sync(ctx, pod); err != nil && ctx.Err() == nil {
			podEvent(w.a.recorder, pod, nil, corev1.EventTypeWarning, eventFailedMount, "%s", err)
			delay = w.a.cfg.scaled(refreshRetry)
		}
		if next := w.volumes.nextRefresh(); !next.IsZero() {
			delay = min(delay, max(next.Sub(w.a.cfg.Clock.Now()), time.Second))
		}
		if !w.wait(ctx, delay, changed) {
			return
		}
	}
}

// setUpNetwork gives the Pod its address and writes the files that tell it.
func (w *worker) setUpNetwork(ctx context.Context) bool {
	for delay := setupRetryFirst; ; delay = min(2*delay, setupRetryMax) {
		pod := w.current()
		err := w.connect(pod)
		if err == nil {
			w.publish()
			return ctx.Err() == nil
		}
		podEvent(w.a.recorder, pod, nil, corev1.EventTypeWarning, eventFailedSetup, "Failed to create pod sandbox: %s", err)
		if !w.wait(ctx, w.a.cfg.scaled(delay), nil) {
			return false
		}
	}
}

func (w *worker) connect(pod *corev1.Pod) error {
	ip := w.a.cfg.NodeIP.String()
	if !pod.Spec.HostNetwork {
		network, err := w.a.cfg.Network.Add(string(pod.UID))
		if err != nil {
			return err
		}
		ip = network.IP.String()
		w.mu.Lock()
		w.net = network
		w.mu.Unlock()
	}
	if _, err := w.makeDir("etc"); err != nil {
		return err
	}
	for target, text := range map[string]string{
		"/etc/hosts":       hostsFile(pod, w.a.cfg, ip),
		"/etc/resolv.conf": resolvFile(pod, w.a.cfg),
		"/etc/hostname":    hostname(pod) + "\n",
	} {
		if err := os.WriteFile(w.podFile(target), []byte(text), 0o644); err != nil { //nolint:gosec // containers of any user read it
			return fmt.Errorf("write %s: %w", target, err)
		}
	}
	w.mu.Lock()
	w.ip, w.networked = ip, true
	w.mu.Unlock()
	return nil
}

// podFile is where the Pod's own version of a file in /etc is.
func (w *worker) podFile(target string) string {
	return filepath.Join(w.dir, "etc", filepath.Base(target))
}

func (w *worker) podFiles() map[string]string {
	files := map[string]string{}
	for _, target := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/hostname"} {
		files[target] = w.podFile(target)
	}
	return files
}

// volumeSource is where a volume's files are.
func (w *worker) volumeSource(vol corev1.Volume) (string, error) {
	if vol.HostPath != nil {
		return w.volumes.hostPath(*vol.HostPath)
	}
	return w.volumes.path(vol.Name), nil
}
