// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// workload reads what a workload consists of and judges it.
func (r *round) workload(ctx context.Context, live *unstructured.Unstructured) (*world.Health, error) {
	w, err := workloadOf(live)
	if err != nil || w == nil {
		return nil, err
	}
	if w.pods, err = r.podsOf(ctx, w); err != nil {
		return nil, fault(ctx, "list the Pods of "+w.ref.String(), err)
	}
	if w.ref.Kind == "Deployment" && !w.rollout.done() {
		if w.sets, err = r.replicaSetsOf(ctx, w); err != nil {
			return nil, fault(ctx, "list the ReplicaSets of "+w.ref.String(), err)
		}
	}
	facts := diagnose.Facts{At: r.at, Nodes: r.nodes}
	h := w.health(facts)
	if stuck := w.stuck(r.at); !h.OK && len(h.Causes) == 0 && stuck != nil {
		if facts.Events, err = r.eventsOf(ctx, stuck); err != nil {
			return nil, fault(ctx, "list the events of Pod "+stuck.Namespace+"/"+stuck.Name, err)
		}
		h = w.health(facts)
	}
	return &h, nil
}

// workloadState is a workload with its Pods, whatever its kind.
type workloadState struct {
	ref      world.Ref
	uid      string
	selector *metav1.LabelSelector
	rollout  rollout
	// revision names the newest ReplicaSet of a Deployment.
	revision string
	// failure is why the controller gave up, if it says so.
	failure string
	// refused is why its controller can't make Pods, if the Deployment says so.
	refused string
	sets    []*appsv1.ReplicaSet
	pods    []*corev1.Pod
}

// rollout is how far a workload's Pods are at its present spec.
type rollout struct {
	generation, observed int64
	desired              int32
	// total counts Pods of any version, updated those of the present one.
	total, updated, ready, available int32
	// ended tells that a Job is complete.
	ended  bool
	oneRun bool
}

// done tells whether all Pods are of the present version, available, and no other ones are left.
func (r rollout) done() bool {
	if r.oneRun {
		return r.ended
	}
	return r.observed >= r.generation && r.updated == r.desired && r.total == r.desired && r.available == r.desired
}

// waitsFor says what is missing, empty if nothing is.
func (r rollout) waitsFor() string {
	switch {
	case r.done():
		return ""
	case r.oneRun:
		return "it is not complete"
	case r.observed < r.generation:
		return "its controller has yet to see the change"
	case r.updated < r.desired:
		return fmt.Sprintf("%d of %s of the new version", r.updated, phrase.Count(r.desired, "Pod"))
	case r.total > r.updated:
		return fmt.Sprintf("%s of the old version left", phrase.Count(r.total-r.updated, "Pod"))
	}
	return fmt.Sprintf("%d of %s available", r.available, phrase.Count(r.desired, "Pod"))
}

// workloadOf reads a workload; nil for kinds of these groups that have no Pods of their own.
func workloadOf(u *unstructured.Unstructured) (*workloadState, error) {
	w := &workloadState{ref: world.RefOf(u), uid: string(u.GetUID())}
	w.rollout.generation = u.GetGeneration()
	var err error
	switch u.GetKind() {
	case "Deployment":
		err = w.deployment(u)
	case "StatefulSet":
		err = w.statefulSet(u)
	case "DaemonSet":
		err = w.daemonSet(u)
	case "Job":
		err = w.job(u)
	default:
		return nil, nil
	}
	return w, err
}

func (w *workloadState) deployment(u *unstructured.Unstructured) error {
	d, err := typed[appsv1.Deployment](u)
	if err != nil {
		return err
	}
	s := d.Status
	w.selector, w.revision = d.Spec.Selector, d.Annotations["deployment.kubernetes.io/revision"]
	w.rollout.observed, w.rollout.desired = s.ObservedGeneration, ptr.Deref(d.Spec.Replicas, 1)
	w.rollout.total, w.rollout.updated, w.rollout.ready, w.rollout.available = s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			w.failure = c.Message
		}
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			w.refused = c.Message
		}
	}
	return nil
}

func (w *workloadState) statefulSet(u *unstructured.Unstructured) error {
	d, err := typed[appsv1.StatefulSet](u)
	if err != nil {
		return err
	}
	s := d.Status
	w.selector = d.Spec.Selector
	w.rollout.observed, w.rollout.desired = s.ObservedGeneration, ptr.Deref(d.Spec.Replicas, 1)
	w.rollout.total, w.rollout.updated, w.rollout.ready, w.rollout.available = s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas
	rolling := d.Spec.UpdateStrategy.RollingUpdate
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || (rolling != nil && ptr.Deref(rolling.Partition, 0) > 0) {
		// Old Pods are meant to stay.
		w.rollout.updated = w.rollout.total
	}
	return nil
}

func (w *workloadState) daemonSet(u *unstructured.Unstructured) error {
	d, err := typed[appsv1.DaemonSet](u)
	if err != nil {
		return err
	}
	s := d.Status
	w.selector = d.Spec.Selector
	w.rollout.observed, w.rollout.desired = s.ObservedGeneration, s.DesiredNumberScheduled
	w.rollout.total, w.rollout.updated, w.rollout.ready, w.rollout.available = s.CurrentNumberScheduled, s.UpdatedNumberScheduled, s.NumberReady, s.NumberAvailable
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		w.rollout.updated = w.rollout.total
	}
	return nil
}

func (w *workloadState) job(u *unstructured.Unstructured) error {
	j, err := typed[batchv1.Job](u)
	if err != nil {
		return err
	}
	s := j.Status
	w.selector = j.Spec.Selector
	w.rollout.oneRun = true
	w.rollout.total, w.rollout.updated, w.rollout.ready = s.Active, s.Succeeded, ptr.Deref(s.Ready, 0)
	for _, c := range s.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == batchv1.JobComplete || c.Type == batchv1.JobSuccessCriteriaMet {
			w.rollout.ended = true
		}
		if c.Type == batchv1.JobFailed {
			w.failure = c.Message
		}
	}
	return nil
}
