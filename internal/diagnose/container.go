// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// crashesDefinite is how many restarts show that a container does not come round by itself. A manager that starts
	// before its certificate is there exits once or twice and then works.
	crashesDefinite = 3
	// oomDefinite is lower: a limit that was hit twice is hit again.
	oomDefinite = 2
)

// containers returns the causes that the container states show, init containers first as they come first.
func (d podDiagnosis) containers() []world.Cause {
	var causes []world.Cause
	for _, s := range d.statuses() {
		if c := d.container(s); c != nil {
			causes = append(causes, *c)
		}
	}
	return causes
}

func (d podDiagnosis) container(s corev1.ContainerStatus) *world.Cause {
	if w := s.State.Waiting; w != nil {
		if c := d.waiting(s, w); c != nil {
			return c
		}
	}
	end := lastEnd(s)
	if end == nil || s.Ready {
		return nil
	}
	c := d.crash(s, end)
	return &c
}

func (d podDiagnosis) waiting(s corev1.ContainerStatus, w *corev1.ContainerStateWaiting) *world.Cause {
	var c world.Cause
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		c = d.image(s, w)
	case "CreateContainerConfigError":
		c = d.config(s, w)
	case "CreateContainerError", "RunContainerError", "PreCreateHookError", "PostStartHookError":
		if end := lastEnd(s); end != nil && end.Reason == "OOMKilled" {
			return nil
		}
		c = d.cause(v1alpha1.StopCrashing, true, d.describe(), "can't start its container %s (image %s): %s", s.Name, d.imageOf(s), short(w.Message, 240))
	default:
		return nil
	}
	return &c
}

// lastEnd returns the unsuccessful exit that the container is in or was restarted from.
func lastEnd(s corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && (t.ExitCode != 0 || t.Reason == "OOMKilled") {
			return t
		}
	}
	if w := s.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
		if t := s.LastTerminationState.Terminated; t != nil {
			return t
		}
		return &corev1.ContainerStateTerminated{Message: w.Message}
	}
	return nil
}

func (d podDiagnosis) crash(s corev1.ContainerStatus, end *corev1.ContainerStateTerminated) world.Cause {
	if end.Reason == "OOMKilled" {
		return d.outOfMemory(s)
	}
	what := fmt.Sprintf("has a container %s (image %s) that exits with code %d", s.Name, d.imageOf(s), end.ExitCode)
	if end.Signal != 0 {
		what = fmt.Sprintf("has a container %s (image %s) that was ended by signal %d", s.Name, d.imageOf(s), end.Signal)
	}
	if s.RestartCount > 0 {
		what += ", restarted " + times(s.RestartCount)
	}
	if said := lastLine(end.Message); said != "" {
		what += "; it said: " + said
	}
	return d.cause(v1alpha1.StopCrashing, s.RestartCount >= crashesDefinite, d.logs(s.Name, s.RestartCount > 0), "%s", what)
}

func (d podDiagnosis) outOfMemory(s corev1.ContainerStatus) world.Cause {
	definite := s.RestartCount >= oomDefinite
	limit := d.spec(s.Name).Resources.Limits[corev1.ResourceMemory]
	if limit.IsZero() {
		return d.cause(v1alpha1.StopOutOfMemory, definite, "free memory on the node or add a node",
			"has a container %s that was killed for its memory, restarted %s: it has no limit, so node %s ran out", s.Name, times(s.RestartCount), d.pod.Spec.NodeName)
	}
	return d.cause(v1alpha1.StopOutOfMemory, definite, fmt.Sprintf("raise the memory limit of container %s in the component's manifests", s.Name),
		"has a container %s that was killed for its memory, restarted %s: its limit is %s", s.Name, times(s.RestartCount), limit.String())
}

func (d podDiagnosis) config(s corev1.ContainerStatus, w *corev1.ContainerStateWaiting) world.Cause {
	definite := d.older(d.pod.CreationTimestamp.Time, settleConfig)
	if kind, name := missingConfig(w.Message); name != "" {
		return d.cause(v1alpha1.StopConfigMissing, definite, fmt.Sprintf("create %s %s in namespace %s", kind, name, d.pod.Namespace),
			"waits for %s %s, which its container %s needs: %s", kind, name, s.Name, short(w.Message, 200))
	}
	return d.cause(v1alpha1.StopConfigMissing, definite, d.describe(), "can't make the configuration of its container %s: %s", s.Name, short(w.Message, 200))
}

// missingConfig finds the Secret or ConfigMap that a kubelet's message is about, with or without its namespace.
func missingConfig(message string) (kind, name string) {
	lower := strings.ToLower(message)
	for _, k := range []string{"Secret", "ConfigMap"} {
		// secret "a" not found · configmap "a" not found · object "ns"/"a" not registered · key k in Secret ns/a
		if rest, found := cutAfter(message, lower, strings.ToLower(k)+" \""); found {
			name, _, _ = strings.Cut(rest, `"`)
			return k, lastSegment(name)
		}
		if rest, found := cutAfter(message, lower, "in "+strings.ToLower(k)+" "); found {
			return k, lastSegment(strings.Fields(rest + " ")[0])
		}
	}
	return "", ""
}

func cutAfter(s, lower, sep string) (string, bool) {
	i := strings.Index(lower, sep)
	if i < 0 || strings.TrimSpace(s[i+len(sep):]) == "" {
		return "", false
	}
	return s[i+len(sep):], true
}

func lastSegment(name string) string {
	name = strings.Trim(name, `"'.,:`)
	return name[strings.LastIndex(name, "/")+1:]
}

// lastLine returns the last line of a termination message: programs say last why they end.
func lastLine(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	return short(lines[len(lines)-1], 240)
}

func (d podDiagnosis) spec(name string) corev1.Container {
	for _, list := range [][]corev1.Container{d.pod.Spec.InitContainers, d.pod.Spec.Containers} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.Container{}
}

// imageOf returns the image as the manifests name it; the status may hold a digest or nothing yet.
func (d podDiagnosis) imageOf(s corev1.ContainerStatus) string {
	if image := d.spec(s.Name).Image; image != "" {
		return image
	}
	return s.Image
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
