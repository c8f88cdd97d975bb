// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package fence judges whether a platform upgrade left the workload clusters alone: the Machines of before, by UID, are
// still there, and the fields that decide what Machines look like have not changed. It is pure: it compares two
// pictures and acts on neither.
package fence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// Baseline is the fleet as it was when a run started.
type Baseline struct {
	Clusters []world.Cluster `json:"clusters"`
	// Planned are clusters, as namespace/name, whose Machines the run replaces on purpose: they are not judged.
	Planned []string `json:"planned,omitempty"`
}

// Outside returns the baseline of a run that replaces Machines of the planned clusters: all the others.
func Outside(fleet []world.Cluster, planned []string) Baseline {
	b := Baseline{Planned: planned}
	for i := range fleet {
		if !slices.Contains(planned, fleet[i].Key()) {
			b.Clusters = append(b.Clusters, fleet[i])
		}
	}
	return b
}

// Encode returns the baseline as bytes that are equal for equal fleets.
func (b Baseline) Encode() ([]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode the fence's baseline: %w", err)
	}
	return data, nil
}

// Decode reads what Encode wrote.
func Decode(data []byte) (Baseline, error) {
	var b Baseline
	if err := json.Unmarshal(data, &b); err != nil {
		return Baseline{}, fmt.Errorf("decode the fence's baseline: %w", err)
	}
	return b, nil
}

// Machines counts the Machines of the baseline.
func (b Baseline) Machines() int32 {
	var n int32
	for i := range b.Clusters {
		n += int32(len(b.Clusters[i].Machines))
	}
	return n
}

// Violation is a change nobody asked for.
type Violation struct {
	// Cluster is the cluster concerned.
	Cluster world.Ref
	// Owner is what made or lost the Machine.
	Owner world.Ref
	// Message names the Machine, the owner and the field that changed, if one did.
	Message string
}

// Result is the fence's judgement.
type Result struct {
	// Machines is how many there were, Unchanged how many of them are still there untouched.
	Machines, Unchanged int32
	// Violations are changes nobody asked for.
	Violations []Violation
	// Expected are changes that somebody asked for: a scale-up, a deleted cluster, a remediation.
	Expected []string
	// Excused are the UIDs of Machines that went for a reason that can only be seen while they go. Handing them to the
	// next Judge keeps the verdict once they are gone.
	Excused []string
}

// Judge compares the fleet now with the baseline.
//
// A Machine that came or went is expected when its owner's own wish explains it: the owner's replicas changed by as
// many, the owner or the cluster is being deleted or is new, or a health check asked for the Machine's replacement.
// Everything else is a violation.
func Judge(before Baseline, now []world.Cluster, excused []string) Result {
	res := Result{Machines: before.Machines(), Excused: slices.Clone(excused)}
	current := byKey(now)
	var pending []Violation
	for i := range before.Clusters {
		old := &before.Clusters[i]
		cur, ok := current[old.Key()]
		if !ok || cur.UID != old.UID || cur.Deleting {
			res.Expected = append(res.Expected, fmt.Sprintf("Cluster %s was deleted", old.Key()))
			continue
		}
		pending = append(pending, judgeCluster(&res, old, cur)...)
	}
	settle(&res, pending)
	known := byKey(before.Clusters)
	for i := range now {
		if _, ok := known[now[i].Key()]; !ok && !slices.Contains(before.Planned, now[i].Key()) {
			res.Expected = append(res.Expected, fmt.Sprintf("Cluster %s is new", now[i].Key()))
		}
	}
	return res
}

// change is what happened to the Machines of one owner.
type change struct {
	came, went []world.Machine
	// had is how many Machines there were that nobody was deleting.
	had int64
}

// settle decides about owners whose configuration was written otherwise while no Machine has moved yet. By itself that may
// be a new default that means nothing, and a note is enough. Once one of them replaces Machines for it, all are about to.
func settle(res *Result, pending []Violation) {
	if len(res.Violations) > 0 {
		res.Violations = append(res.Violations, pending...)
		return
	}
	for _, p := range pending {
		res.Expected = append(res.Expected, p.Message)
	}
}

// judgeCluster judges one cluster, and returns what becomes a violation if anything else is one.
func judgeCluster(res *Result, old, cur *world.Cluster) []Violation {
	changes := diff(res, old, cur)
	oldOwners, curOwners := owners(old), owners(cur)
	for _, ref := range slices.SortedFunc(maps.Keys(changes), compareRefs) {
		c := changes[ref]
		c.had = living(old, ref)
		was, had := oldOwners[ref]
		is, has := curOwners[ref]
		if why := explained(c, was, is, had, has); why != "" {
			res.Expected = append(res.Expected, fmt.Sprintf("%s of cluster %s: %s", ref, cur.Key(), why))
			res.excuse(c.went)
			continue
		}
		res.Violations = append(res.Violations, Violation{
			Cluster: clusterRef(cur),
			Owner:   named(ref, was, is),
			Message: describe(c, ref, cur.Key(), changed(was, is)),
		})
	}
	return templates(res, cur, oldOwners, curOwners, changes)
}

func clusterRef(c *world.Cluster) world.Ref {
	return world.Ref{APIVersion: "cluster.x-k8s.io", Kind: "Cluster", Namespace: c.Namespace, Name: c.Name}
}

// templates reports owners whose template fields changed although no Machine followed yet. Those of which only the
// configuration was written otherwise are returned; in a cluster that a run holds nothing follows before it lets go, so
// there they count at once.
func templates(res *Result, cur *world.Cluster, old, now map[world.Ref]world.Owner, changes map[world.Ref]*change) []Violation {
	var pending []Violation
	for _, ref := range slices.SortedFunc(maps.Keys(old), compareRefs) {
		is, ok := now[ref]
		template, config := fields(old[ref], is), config(old[ref], is)
		if _, reported := changes[ref]; !ok || reported || len(template)+len(config) == 0 {
			continue
		}
		v := Violation{Cluster: clusterRef(cur), Owner: is.Ref}
		v.Message = fmt.Sprintf("%s of cluster %s changed %s", ref, cur.Key(), phrase.Some(append(template, config...)))
		if len(template) == 0 && cur.HeldFor == "" {
			pending = append(pending, v)
			continue
		}
		v.Message += ": its Machines are about to be replaced"
		res.Violations = append(res.Violations, v)
	}
	return pending
}

func diff(res *Result, old, cur *world.Cluster) map[world.Ref]*change {
	changes := map[world.Ref]*change{}
	at := func(r world.Ref) *change {
		r = key(r)
		if changes[r] == nil {
			changes[r] = &change{}
		}
		return changes[r]
	}
	now := map[string]world.Machine{}
	for _, m := range cur.Machines {
		now[m.UID] = m
	}
	was := map[string]bool{}
	for _, m := range old.Machines {
		was[m.UID] = true
		is, ok := now[m.UID]
		switch {
		case !ok:
			m.Remediated = m.Remediated || slices.Contains(res.Excused, m.UID)
			at(m.Owner).went = append(at(m.Owner).went, m)
		case is.Deleting && !m.Deleting:
			m.Remediated = is.Remediated
			at(m.Owner).went = append(at(m.Owner).went, m)
		default:
			res.Unchanged++
		}
	}
	for _, m := range cur.Machines {
		if !was[m.UID] {
			at(m.Owner).came = append(at(m.Owner).came, m)
		}
	}
	return changes
}

// explained returns the reason for which a change was asked for, or "".
func explained(c *change, was, is world.Owner, had, has bool) string {
	switch {
	case had && (!has || is.Deleting):
		return "is being deleted"
	case !had && has:
		return "is new"
	case len(changed(was, is)) > 0:
		return ""
	case c.nears(is.Replicas) && is.Replicas-was.Replicas == int64(len(c.came)-len(c.went)):
		return fmt.Sprintf("was scaled from %d to %d", was.Replicas, is.Replicas)
	case c.nears(is.Replicas) && is.Replicas != was.Replicas:
		return fmt.Sprintf("is being scaled from %d to %d", was.Replicas, is.Replicas)
	case c.nears(is.Replicas):
		return fmt.Sprintf("was on its way from %d to %d Machines before the run", c.had, is.Replicas)
	case len(c.went) > 0 && remediated(c.went):
		return fmt.Sprintf("replaces Machine %s, which its health check gave up", c.went[0].Name)
	case len(c.went) > 0 && allDeletingBefore(c.went):
		return fmt.Sprintf("Machine %s was being deleted before the run", c.went[0].Name)
	}
	return ""
}

// nears tells that Machines only came, or only went, and no more of them than it takes to have as many as are asked for.
// A control plane takes its Machines away one at a time, and the run may have begun in the midst of either.
func (c *change) nears(replicas int64) bool {
	switch now := c.had + int64(len(c.came)-len(c.went)); {
	case len(c.went) == 0:
		return c.had < now && now <= replicas
	case len(c.came) == 0:
		return c.had > now && now >= replicas
	}
	return false
}

// excuse remembers Machines that a health check gave up.
func (r *Result) excuse(went []world.Machine) {
	for _, m := range went {
		if m.Remediated && !slices.Contains(r.Excused, m.UID) {
			r.Excused = append(r.Excused, m.UID)
		}
	}
}

func remediated(ms []world.Machine) bool {
	return !slices.ContainsFunc(ms, func(m world.Machine) bool { return !m.Remediated })
}

func allDeletingBefore(ms []world.Machine) bool {
	return !slices.ContainsFunc(ms, func(m world.Machine) bool { return !m.Deleting })
}
