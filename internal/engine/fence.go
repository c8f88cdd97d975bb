// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/fence"
	"github.com/capstan-dev/capstan/internal/world"
)

// judge compares the fleet with the baseline. While Cluster API's kinds are not served there is nothing to compare, and
// no Cluster was deleted: what was known stays, and w says that the fleet could not be read.
func judge(before fence.Baseline, w *world.World, run *v1alpha1.Upgrade) fence.Result {
	known := run.Status.Fence
	if known == nil {
		known = &v1alpha1.FenceStatus{}
	}
	if len(before.Clusters) > 0 && w.Management.ClusterAPIVersion == "" {
		w.FleetError = "the API server does not serve Cluster API's Clusters"
		return fence.Result{Machines: before.Machines(), Unchanged: known.Unchanged, Excused: known.Excused}
	}
	return fence.Judge(before, w.Clusters, known.Excused)
}

// recordFence keeps the proof about the workload clusters up to date. It asks for a write of its own only when the
// judgement changed: counts of probes alone go along with the next write.
func (j *journal) recordFence() {
	old := j.status.Fence
	f := &v1alpha1.FenceStatus{
		Machines: j.in.fence.Machines, Unchanged: j.in.fence.Unchanged,
		Expected: j.in.fence.Expected, Excused: j.in.fence.Excused,
	}
	for _, v := range j.in.fence.Violations {
		f.Violations = append(f.Violations, v.Message)
	}
	if old != nil {
		f.Paused = old.Paused
		f.Violations = union(old.Violations, f.Violations)
		f.Expected = union(old.Expected, f.Expected)
		f.Probes = old.Probes
	}
	if j.in.probes != nil {
		f.Probes = probeStatus(j.in.probes)
	}
	if old == nil || old.Unchanged != f.Unchanged || !slices.Equal(old.Violations, f.Violations) || !slices.Equal(old.Expected, f.Expected) {
		j.write = true
	}
	j.status.Fence = f
}

// violated pauses the clusters that changed although nobody asked for it, one a tick, then stops the run.
func (j *journal) violated() decision {
	for _, v := range j.in.fence.Violations {
		key := v.Cluster.Namespace + "/" + v.Cluster.Name
		if slices.Contains(j.status.Fence.Paused, key) || j.paused(key) {
			continue
		}
		j.status.Fence.Paused = append(j.status.Fence.Paused, key)
		j.log("Fence", "", v.Message+"; pausing the cluster")
		return j.pause(j.clusterRef(v.Cluster), v1alpha1.PausedByAnnotation, j.seen(key))
	}
	if j.stopped() {
		return j.decision(kindStop, 0)
	}
	stops := make([]v1alpha1.Stop, 0, len(j.in.fence.Violations))
	for _, v := range j.in.fence.Violations {
		owner := v1alpha1.ObjectReference(v.Owner)
		stops = append(stops, v1alpha1.Stop{
			Reason: v1alpha1.StopFenceViolated, Message: v.Message, Object: &owner,
			Remedy: "find out what made the change; the cluster is paused meanwhile: unpause it by " + unpause(v.Cluster) + ", then start a new run with `capstan upgrade`, or end this one with `capstan abort`, which also unpauses it unless it is the management cluster itself",
		})
	}
	d := j.stop(stops)
	j.condition(v1alpha1.ConditionSucceeded, metav1.ConditionFalse, v1alpha1.ReasonFenceViolated, stops[0].Message)
	d.status = j.status
	return d
}

// paused tells that a cluster is paused to stay so: one that the run only holds is let go at its end.
func (j *journal) paused(key string) bool {
	c := j.seen(key)
	return c != nil && c.Paused && (c.HeldFor == "" || c.PausedBy != "")
}

// clusterRef completes the reference with the API version that the fleet was read at.
func (j *journal) clusterRef(r world.Ref) world.Ref {
	if v := j.in.world.Management.ClusterAPIVersion; v != "" {
		r.APIVersion = v
	}
	return r
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func probeStatus(probes []world.Probe) []v1alpha1.ProbeStatus {
	out := make([]v1alpha1.ProbeStatus, 0, len(probes))
	for _, p := range probes {
		s := v1alpha1.ProbeStatus{
			Cluster: p.Cluster, Total: p.Total, Failed: p.Failed, LongestGap: metav1.Duration{Duration: p.LongestGap},
			Gaps: slices.Clone(p.Earlier),
		}
		for _, g := range p.Gaps {
			s.Gaps = append(s.Gaps, g.String())
		}
		out = append(out, s)
	}
	return out
}
