// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// mountPlan lists what is mounted into a container: the Pod's own files, then
// the volumes, outer directories before inner ones.
type mountPlan struct {
	// source returns where a volume's files are.
	source func(corev1.Volume) (string, error)
	// podFiles holds hosts, resolv.conf and the like, by target.
	podFiles map[string]string
	// termination is the file for the termination message.
	termination string
}

func (p mountPlan) build(pod *corev1.Pod, c corev1.Container, env map[string]string) ([]container.Mount, error) {
	var mounts []container.Mount
	for _, m := range c.VolumeMounts {
		mount, err := p.volumeMount(pod, m, env)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	taken := func(target string) bool {
		return slices.ContainsFunc(mounts, func(m container.Mount) bool { return m.Target == target })
	}
	for target, source := range p.podFiles {
		if !taken(target) {
			mounts = append(mounts, container.Mount{Source: source, Target: target})
		}
	}
	if target := path.Clean(c.TerminationMessagePath); path.IsAbs(target) && !taken(target) {
		mounts = append(mounts, container.Mount{Source: p.termination, Target: target})
	}
	slices.SortStableFunc(mounts, func(a, b container.Mount) int {
		if d := strings.Count(a.Target, "/") - strings.Count(b.Target, "/"); d != 0 {
			return d
		}
		return strings.Compare(a.Target, b.Target)
	})
	return mounts, nil
}

func (p mountPlan) volumeMount(pod *corev1.Pod, m corev1.VolumeMount, env map[string]string) (container.Mount, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 {
		return container.Mount{}, fmt.Errorf("there is no volume %q", m.Name)
	}
	vol := pod.Spec.Volumes[i]
	source, err := p.source(vol)
	if err != nil {
		return container.Mount{}, err
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = expandAll([]string{m.SubPathExpr}, env)[0]
	}
	if sub != "" {
		if source, err = subPath(source, sub); err != nil {
			return container.Mount{}, fmt.Errorf("failed to prepare subPath for volumeMount %q: %w", m.Name, err)
		}
	}
	// The kubelet lets nobody write to what it keeps up to date itself.
	kept := vol.Secret != nil || vol.ConfigMap != nil || vol.Projected != nil || vol.DownwardAPI != nil
	return container.Mount{Source: source, Target: path.Clean(m.MountPath), ReadOnly: m.ReadOnly || kept}, nil
}

// subPath resolves a path in a volume, without leaving it, and makes a directory
// if there is nothing.
func subPath(root, sub string) (string, error) {
	resolved, err := container.ResolveIn(root, sub)
	if err != nil {
		return "", err
	}
	_, err = os.Stat(resolved)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(resolved, 0o750)
	}
	return resolved, err
}

func makeFile(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as a kubelet does
		return err
	}
	return os.WriteFile(file, nil, 0o644) //nolint:gosec // as a kubelet does
}

// makeSocket makes a socket nobody listens at. The path may be too long for an
// address, so it is made by a short one in the directory.
func makeSocket(socket string) error {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as a kubelet does
		return err
	}
	handle, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer handle.Close()
	short := fmt.Sprintf("/proc/self/fd/%d/%s", handle.Fd(), filepath.Base(socket))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}
