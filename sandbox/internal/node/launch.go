// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
	"github.com/capstan-dev/capstan/sandbox/internal/node/image"
)

// launch is everything needed to start a container once.
type launch struct {
	spec  corev1.Container
	image *image.Image
	what  container.Spec
	// dir is the container's own; logPath and termination are in it.
	dir, logPath, termination string
}

// newLaunch works out how a container is started. An error is one of its
// configuration: something it refers to is missing or refused.
func (w *worker) newLaunch(ctx context.Context, pod *corev1.Pod, c corev1.Container, img *image.Image, number int) (*launch, error) {
	w.mu.Lock()
	withIP := pod.DeepCopy()
	withIP.Status.PodIP, withIP.Status.PodIPs = w.ip, []corev1.PodIP{{IP: w.ip}}
	withIP.Status.HostIP = w.a.cfg.NodeIP.String()
	withIP.Status.HostIPs = []corev1.HostIP{{IP: withIP.Status.HostIP}}
	w.mu.Unlock()

	builder := envBuilder{objects: w.a, pod: withIP, service: serviceEnv(w.a.cfg), allocatable: w.a.capacity()}
	env, err := builder.build(ctx, c)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, "containers", c.Name)
	l := &launch{
		spec: c, image: img, dir: dir,
		logPath:     filepath.Join(dir, strconv.Itoa(number)+".log"),
		termination: filepath.Join(dir, "termination-log"),
	}
	if l.what.Process, err = w.process(pod, c, img, env); err != nil {
		return nil, err
	}
	plan := mountPlan{source: w.volumeSource, podFiles: w.podFiles(), termination: l.termination}
	if l.what.Mounts, err = plan.build(pod, c, env); err != nil {
		return nil, err
	}
	l.what.Image = img.Root
	l.what.Work = filepath.Join(dir, "root"+strconv.Itoa(number))
	l.what.Hostname = hostname(pod)
	l.what.ReadOnlyRoot = c.SecurityContext != nil && isTrue(c.SecurityContext.ReadOnlyRootFilesystem)
	return l, nil
}

func (w *worker) process(pod *corev1.Pod, c corev1.Container, img *image.Image, env map[string]string) (container.Process, error) {
	user, err := img.User()
	if err != nil {
		return container.Process{}, err
	}
	args, err := commandLine(img.Config.Entrypoint, img.Config.Cmd, c, env)
	if err != nil {
		return container.Process{}, err
	}
	full := maps.Clone(env)
	if _, ok := full["HOSTNAME"]; !ok {
		full["HOSTNAME"] = hostname(pod)
	}
	p := container.Process{Args: args, Env: mergeEnv(img.Config.Env, full), Cwd: c.WorkingDir}
	if p.Cwd == "" {
		p.Cwd = img.Config.WorkingDir
	}
	if p.Cwd != "" && !strings.HasPrefix(p.Cwd, "/") {
		return p, fmt.Errorf("working directory %q is not absolute", p.Cwd)
	}
	return p, setIdentity(&p, pod, c, user, w.a.ids)
}

// errNotRunning says that there is no process to do something in.
var errNotRunning = errors.New("container is not running")
