// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// settleUnschedulable is how long the scheduler may still find room without anybody's help: another Pod is just
	// going, a node has just come.
	settleUnschedulable = 10 * time.Second
	// settleConfig is how long a Secret or ConfigMap may be on its way: cert-manager issues it after the Pod starts.
	settleConfig = 60 * time.Second
	// settleReady is how long a running container may take to become ready before anything is said about it.
	settleReady = 60 * time.Second
)

// Pod returns what keeps a Pod from working, definite causes first; none for a Pod that works, starts, or is being
// deleted.
func Pod(p *corev1.Pod, f Facts) []world.Cause {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	d := podDiagnosis{pod: p, facts: f}
	if c := d.unschedulable(); c != nil {
		return []world.Cause{*c}
	}
	if p.Status.Phase == corev1.PodFailed {
		return []world.Cause{d.failed()}
	}
	causes := d.containers()
	if len(causes) == 0 {
		causes = d.mounts()
	}
	if len(causes) == 0 {
		causes = d.readiness()
	}
	return Sort(causes)
}

// podDiagnosis is one Pod with what is known around it.
type podDiagnosis struct {
	pod   *corev1.Pod
	facts Facts
}

func (d podDiagnosis) ref() world.Ref {
	return world.Ref{APIVersion: "v1", Kind: "Pod", Namespace: d.pod.Namespace, Name: d.pod.Name}
}

func (d podDiagnosis) cause(reason string, definite bool, remedy, format string, args ...any) world.Cause {
	return world.Cause{
		Reason:   reason,
		Message:  d.ref().String() + " " + fmt.Sprintf(format, args...),
		Remedy:   resume(remedy),
		Object:   d.ref(),
		Made:     d.pod.CreationTimestamp.Time,
		Definite: definite,
	}
}

// older tells whether t is at least limit ago. A time that is missing or, by a clock that runs apart, in the future
// counts as old: a wrong clock must not silence a cause.
func (d podDiagnosis) older(t time.Time, limit time.Duration) bool {
	age := d.facts.At.Sub(t)
	return t.IsZero() || age < 0 || age >= limit
}

// failed explains a Pod that the kubelet gave up as a whole: evicted, or never admitted to the node.
func (d podDiagnosis) failed() world.Cause {
	s := d.pod.Status
	text := short(s.Message, 200)
	switch {
	case s.Reason == "Evicted" && strings.Contains(strings.ToLower(s.Message), "memory"):
		return d.cause(v1alpha1.StopOutOfMemory, false, "free memory on the node or add a node",
			"was evicted from node %s: %s", d.pod.Spec.NodeName, text)
	case strings.HasPrefix(s.Reason, "OutOf"), s.Reason == "NodeAffinity", s.Reason == "UnexpectedAdmissionError":
		return d.cause(v1alpha1.StopUnschedulable, true, "make room on the node or add a node",
			"was refused by node %s (%s): %s", d.pod.Spec.NodeName, s.Reason, text)
	}
	for _, c := range d.containers() {
		return c
	}
	if text == "" {
		text = "no reason is given"
	}
	return d.cause(v1alpha1.StopCrashing, false, d.describe(), "failed (%s): %s", s.Reason, text)
}

// mounts explains a Pod whose containers can't be created because a volume is missing.
func (d podDiagnosis) mounts() []world.Cause {
	if !d.creating() {
		return nil
	}
	var last *corev1.Event
	for i := range d.facts.Events {
		e := &d.facts.Events[i]
		if e.Type != corev1.EventTypeWarning || (e.Reason != "FailedMount" && e.Reason != "FailedAttachVolume") {
			continue
		}
		if last == nil || !eventTime(e).Before(eventTime(last)) {
			last = e
		}
	}
	if last == nil {
		return nil
	}
	definite := d.older(d.pod.CreationTimestamp.Time, settleConfig)
	if kind, name := missingConfig(last.Message); name != "" {
		return []world.Cause{d.cause(v1alpha1.StopConfigMissing, definite,
			fmt.Sprintf("create %s %s in namespace %s", kind, name, d.pod.Namespace),
			"waits for %s %s: %s", kind, name, short(last.Message, 200))}
	}
	return []world.Cause{d.cause(v1alpha1.StopNotReady, definite, d.describe(), "can't mount a volume: %s", short(last.Message, 200))}
}

// creating tells whether a scheduled Pod's containers are yet to be made.
func (d podDiagnosis) creating() bool {
	if d.pod.Status.Phase != corev1.PodPending || d.pod.Spec.NodeName == "" {
		return false
	}
	for _, s := range d.statuses() {
		if s.State.Running != nil || s.State.Terminated != nil {
			return false
		}
	}
	return true
}

// readiness explains a Pod that runs and does not become ready.
func (d podDiagnosis) readiness() []world.Cause {
	if d.pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	for _, s := range d.pod.Status.ContainerStatuses {
		if s.Ready || s.State.Running == nil || !d.older(s.State.Running.StartedAt.Time, settleReady) {
			continue
		}
		return []world.Cause{d.cause(v1alpha1.StopNotReady, false, d.logs(s.Name, false),
			"runs on node %s, but its container %s does not become ready", d.pod.Spec.NodeName, s.Name)}
	}
	return nil
}

func (d podDiagnosis) statuses() []corev1.ContainerStatus {
	all := append([]corev1.ContainerStatus(nil), d.pod.Status.InitContainerStatuses...)
	return append(all, d.pod.Status.ContainerStatuses...)
}

func (d podDiagnosis) logs(container string, previous bool) string {
	cmd := fmt.Sprintf("kubectl logs -n %s %s -c %s", d.pod.Namespace, d.pod.Name, container)
	if previous {
		cmd += " --previous"
	}
	return fmt.Sprintf("read %q and fix the cause", cmd)
}

func (d podDiagnosis) describe() string {
	return fmt.Sprintf("read %q and fix the cause", fmt.Sprintf("kubectl describe pod -n %s %s", d.pod.Namespace, d.pod.Name))
}

func eventTime(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
