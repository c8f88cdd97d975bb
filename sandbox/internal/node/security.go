// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
	"github.com/capstan-dev/capstan/sandbox/internal/node/image"
)

// idRange is a range of ids that exist in a user namespace.
type idRange struct{ first, size int64 }

// idMap tells which user ids exist here. A plain user's sandbox has only 0: then
// every container runs as that, without capabilities if it wanted to be another.
type idMap []idRange

func readIDMap() (idMap, error) {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil, fmt.Errorf("read user ids: %w", err)
	}
	var m idMap
	for line := range strings.Lines(string(data)) {
		var r idRange
		var outside int64
		if _, err := fmt.Sscan(line, &r.first, &outside, &r.size); err != nil {
			return nil, fmt.Errorf("read user ids: %w", err)
		}
		m = append(m, r)
	}
	return m, nil
}

func (m idMap) has(id int) bool {
	return slices.ContainsFunc(m, func(r idRange) bool {
		return int64(id) >= r.first && int64(id) < r.first+r.size
	})
}

// setIdentity decides as whom the process runs, by Pod, container and image.
func setIdentity(p *container.Process, pod *corev1.Pod, c corev1.Container, user image.User, ids idMap) error {
	ps, cs := pod.Spec.SecurityContext, c.SecurityContext
	if ps == nil {
		ps = &corev1.PodSecurityContext{}
	}
	if cs == nil {
		cs = &corev1.SecurityContext{}
	}
	uid, explicit := firstID(cs.RunAsUser, ps.RunAsUser, user.UID)
	gid, _ := firstID(cs.RunAsGroup, ps.RunAsGroup, user.GID)
	if nonRoot := firstBool(cs.RunAsNonRoot, ps.RunAsNonRoot); nonRoot {
		if uid == 0 {
			return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", podFullName(pod), c.Name)
		}
		if !explicit && user.Name != "" {
			return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)",
				user.Name, podFullName(pod), c.Name)
		}
	}
	var add, drop []string
	if cs.Capabilities != nil {
		add, drop = capabilityNames(cs.Capabilities.Add), capabilityNames(cs.Capabilities.Drop)
	}
	mask, err := container.CapabilityMask(add, drop, isTrue(cs.Privileged))
	if err != nil {
		return err
	}
	p.UID, p.GID, p.Capabilities = uid, gid, mask
	p.NoNewPrivileges = cs.AllowPrivilegeEscalation != nil && !*cs.AllowPrivilegeEscalation
	for _, group := range ps.SupplementalGroups {
		p.Groups = append(p.Groups, int(group))
	}
	if ps.FSGroup != nil {
		p.Groups = append(p.Groups, int(*ps.FSGroup))
	}
	if ids.has(uid) && ids.has(gid) && !slices.ContainsFunc(p.Groups, func(g int) bool { return !ids.has(g) }) {
		return nil
	}
	if uid != 0 {
		p.Capabilities = 0
	}
	p.UID, p.GID, p.Groups = 0, 0, nil
	return nil
}

func firstID(own, pod *int64, fallback int) (id int, explicit bool) {
	for _, p := range []*int64{own, pod} {
		if p != nil {
			return int(*p), true
		}
	}
	return fallback, false
}

func firstBool(own, pod *bool) bool {
	if own != nil {
		return *own
	}
	return isTrue(pod)
}

func capabilityNames(list []corev1.Capability) []string {
	var names []string
	for _, c := range list {
		names = append(names, string(c))
	}
	return names
}

// podFullName is how the kubelet names a Pod in messages.
func podFullName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}
