// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// steadyAfter is how long a container that crashed has to stay up before its Pod counts as working: a manager that
	// is ready for a moment between two crashes must not pass for a success.
	steadyAfter = 30 * time.Second
	// stuckAfter is how long a Pod's containers may take to be created before its events are asked for.
	stuckAfter = 10 * time.Second
)

// health judges a workload.
func (w *workloadState) health(f diagnose.Facts) world.Health {
	h := world.Health{Message: w.rollout.waitsFor(), Progress: w.progress()}
	if h.Message == "" && !w.rollout.oneRun {
		h.Message = w.unsteady(f.At)
	}
	if h.Message == "" {
		h.OK = true
		return h
	}
	h.Message = w.ref.String() + ": " + h.Message
	h.Causes = w.causes(f)
	return h
}

// causes looks at Pods of the newest version first: they are what a rollout waits for.
func (w *workloadState) causes(f diagnose.Facts) []world.Cause {
	newest := w.newest()
	var causes, old []world.Cause
	if newest != nil {
		causes = diagnose.ReplicaSet(newest)
	}
	for _, p := range w.pods {
		found := diagnose.Pod(p, f)
		if newest == nil || controlledBy(p, string(newest.UID)) {
			causes = append(causes, found...)
			continue
		}
		for _, c := range found {
			// The new version replaces it anyway.
			c.Definite = false
			old = append(old, c)
		}
	}
	if len(causes) == 0 && w.refused != "" {
		causes = []world.Cause{diagnose.PodsRefused(w.ref, w.refused)}
	}
	causes = diagnose.Sort(append(causes, old...))
	for i := range causes {
		if name := w.ref.String(); !strings.Contains(causes[i].Message, name) {
			causes[i].Message = name + ": " + causes[i].Message
		}
	}
	if len(causes) == 0 && w.failure != "" {
		causes = []world.Cause{{
			Reason: v1alpha1.StopNotReady, Message: w.ref.String() + " does not come up: " + w.failure, Object: w.ref, Definite: w.rollout.oneRun,
			Remedy: fmt.Sprintf(`read "kubectl describe %s -n %s %s" and fix the cause, then run "capstan resume"`, w.ref.Kind, w.ref.Namespace, w.ref.Name),
		}}
	}
	return causes
}

// newest returns the ReplicaSet of a Deployment's present revision; nil if it is not known.
func (w *workloadState) newest() *appsv1.ReplicaSet {
	for _, rs := range w.sets {
		if w.revision != "" && rs.Annotations["deployment.kubernetes.io/revision"] == w.revision {
			return rs
		}
	}
	return nil
}

// unsteady names a container that was restarted after a crash a moment ago; empty if none was.
func (w *workloadState) unsteady(at time.Time) string {
	for _, p := range w.pods {
		for _, c := range p.Status.ContainerStatuses {
			end := c.LastTerminationState.Terminated
			if p.DeletionTimestamp != nil || c.RestartCount == 0 || end == nil || end.ExitCode == 0 || c.State.Running == nil {
				continue
			}
			// A start in the future is a clock that runs apart, which must not hold a run for long.
			if age := at.Sub(c.State.Running.StartedAt.Time); age >= 0 && age < steadyAfter {
				return fmt.Sprintf("container %s of Pod %s was restarted a moment ago after exit code %d, and has to stay up", c.Name, p.Name, end.ExitCode)
			}
		}
	}
	return ""
}

// stuck returns a Pod that has a node, but whose containers have not been created for a while.
func (w *workloadState) stuck(at time.Time) *corev1.Pod {
	for _, p := range w.pods {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending || p.Spec.NodeName == "" || at.Sub(p.CreationTimestamp.Time) < stuckAfter {
			continue
		}
		return p
	}
	return nil
}

// progress counts what moves forward. Restart counts and times are left out: a crash loop turns without moving.
func (w *workloadState) progress() int64 {
	var stages []string
	for _, p := range w.pods {
		stages = append(stages, p.Name+podStage(p))
	}
	slices.Sort(stages)
	return progress(w.rollout, stages)
}

// podStage is how far a Pod has come, once: scheduled, and how many of its containers were ever started.
func podStage(p *corev1.Pod) string {
	started := 0
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
			started++
		}
	}
	return fmt.Sprintf("/%t/%d/%t", p.Spec.NodeName != "", started, p.DeletionTimestamp != nil)
}

func controlledBy(o metav1.Object, uid string) bool {
	c := metav1.GetControllerOf(o)
	return c != nil && string(c.UID) == uid
}
