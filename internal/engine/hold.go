// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// absent is what v1alpha1.PausedBeforeAnnotation says for a Cluster without spec.paused.
const absent = "absent"

// The run holds the Clusters that are the management cluster itself: it pauses them before its first change, so that new
// controllers can't replace the nodes that they run on, and puts spec.paused back before it ends, completed or aborted.
//
//	not paused ──hold──► paused, held-for and paused-before ──release──► as before
//	                          │
//	                          └─ violation ─► paused, paused-by and paused-before ─► a person decides
//
// Any other Cluster that a violation paused is put back in the same way once a person has decided: by an abort, or by a
// resume after which the run comes to its end. Of the management cluster itself the nodes would be replaced under the very
// controllers, so that one is left to a person altogether.
//
// Nothing but the annotations says that a Cluster is held, so a run that lost its process, or its status, puts it back all
// the same; and so does a later run that took over from one that stopped.

// holdClusters pauses the first Cluster that is the management cluster itself and is not paused yet; open is false when
// there is none.
func (j *journal) holdClusters() (d decision, open bool) {
	for _, ref := range j.in.hold {
		c := j.seen(ref.Namespace + "/" + ref.Name)
		if c == nil || c.Deleting || c.Paused {
			continue
		}
		if j.stale("Held", ref) {
			return j.decision(kindWait, j.pace()), true
		}
		j.log("Held", "", heldMessage("Held", ref)+" it is the management cluster itself, and stays paused while components move")
		return j.pause(j.clusterRef(ref), v1alpha1.HeldForAnnotation, c), true
	}
	return decision{}, false
}

// release puts back the first Cluster that a run held or paused; held is false when there is none.
func (j *journal) release() (d decision, held bool) {
	for i := range j.in.world.Clusters {
		c := &j.in.world.Clusters[i]
		ref := world.Ref{Kind: "Cluster", Namespace: c.Namespace, Name: c.Name}
		own := slices.ContainsFunc(j.in.hold, func(h world.Ref) bool { return h.Namespace == ref.Namespace && h.Name == ref.Name })
		// What the fence of an earlier run paused is not this run's to let go: nobody has decided about it yet.
		mine := c.PausedBy == j.in.run.Name && !own
		if c.HeldFor == "" && !mine {
			continue
		}
		if j.stale("Released", ref) {
			return j.decision(kindWait, j.pace()), true
		}
		j.log("Released", "", heldMessage("Released", ref)+" spec.paused is as it was before the run")
		d := j.decision(kindReleaseCluster, busy)
		d.cluster, d.patch = j.clusterRef(ref), releasePatch(c, c.PausedBy != "" && !mine)
		return d, true
	}
	return decision{}, false
}

// stale tells that the same was done to a cluster after it was read last, so that the reading says nothing about it.
func (j *journal) stale(event string, ref world.Ref) bool {
	for _, e := range slices.Backward(j.status.Journal) {
		if e.Event == event && strings.HasPrefix(e.Message, heldMessage(event, ref)) {
			// The journal keeps full seconds.
			return !j.in.world.FleetAt.After(e.At.Add(time.Second))
		}
	}
	return false
}

func heldMessage(event string, ref world.Ref) string {
	return fmt.Sprintf("%s Cluster %s/%s:", event, ref.Namespace, ref.Name)
}

// seen returns a cluster as it was read last, nil if it is not there.
func (j *journal) seen(key string) *world.Cluster {
	i := slices.IndexFunc(j.in.world.Clusters, func(c world.Cluster) bool { return c.Key() == key })
	if i < 0 {
		return nil
	}
	return &j.in.world.Clusters[i]
}

// pause pauses a Cluster and says in annotations who did it and what it was before, so that a person finds the run and
// nothing is unpaused by mistake. c is the Cluster as it was read last; nil is one that was not.
func (j *journal) pause(ref world.Ref, annotation string, c *world.Cluster) decision {
	before, version := "", ""
	switch {
	case c == nil || c.PausedBefore == "" && c.SpecPaused == "":
		before = fmt.Sprintf(",%q:%q", v1alpha1.PausedBeforeAnnotation, absent)
	case c.PausedBefore == "": // the first word stays
		before = fmt.Sprintf(",%q:%q", v1alpha1.PausedBeforeAnnotation, c.SpecPaused)
	}
	if c != nil && annotation == v1alpha1.HeldForAnnotation && c.ResourceVersion != "" {
		version = fmt.Sprintf(`"resourceVersion":%q,`, c.ResourceVersion) // what it was before must be true
	}
	d := j.decision(kindPauseCluster, busy)
	d.cluster = ref
	d.patch = fmt.Appendf(nil, `{"metadata":{%s"annotations":{%q:%q%s}},"spec":{"paused":true}}`, version, annotation, j.in.run.Name, before)
	return d
}

// releasePatch puts spec.paused back, or only lets go of a Cluster that stays paused for another reason.
func releasePatch(c *world.Cluster, stays bool) []byte {
	if stays {
		return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.HeldForAnnotation)
	}
	before := "null"
	if c.PausedBefore == "true" || c.PausedBefore == "false" {
		before = c.PausedBefore
	}
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:null,%q:null}},"spec":{"paused":%s}}`,
		v1alpha1.HeldForAnnotation, v1alpha1.PausedByAnnotation, v1alpha1.PausedBeforeAnnotation, before)
}

// unpause is what to type to unpause a Cluster that the fence paused.
func unpause(c world.Ref) string {
	return fmt.Sprintf(`kubectl patch cluster -n %s %s --type merge -p '{"metadata":{"annotations":{%q:null,%q:null}},"spec":{"paused":false}}'`,
		c.Namespace, c.Name, v1alpha1.PausedByAnnotation, v1alpha1.PausedBeforeAnnotation)
}

// verb is what a change to a Cluster is called in errors.
func (k kind) verb() string {
	if k == kindReleaseCluster {
		return "release"
	}
	return "pause"
}
