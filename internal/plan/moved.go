// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// Snapshot is what a saved plan remembers of the world beyond the plan itself, so that it can be told later what moved.
type Snapshot struct {
	// Newest is the name of the newest run, empty if there was none.
	Newest string `json:"newest,omitempty"`
	// Clusters are the workload clusters, as namespace/name, each with its UID.
	Clusters map[string]string `json:"clusters,omitempty"`
	// Objects are the objects of the components that move, and how they stood.
	Objects []ObjectState `json:"objects,omitempty"`
}

// ObjectState is how an object of a component stood.
type ObjectState struct {
	Component string    `json:"component"`
	Object    world.Ref `json:"object"`
	// Found tells whether it was there.
	Found bool `json:"found,omitempty"`
	// Change identifies all that an apply would change in it.
	Change string `json:"change,omitempty"`

	// drift says what differs; known of the present only.
	drift string
}

// Snap takes the snapshot for a plan.
func Snap(b *release.Bundle, w *world.World, newest string) Snapshot {
	s := Snapshot{Newest: newest, Clusters: map[string]string{}}
	for i := range w.Clusters {
		s.Clusters[w.Clusters[i].Key()] = w.Clusters[i].UID
	}
	for _, r := range b.Components {
		for _, o := range w.Sets[SetID(r.Component.Name)].Objects {
			s.Objects = append(s.Objects, ObjectState{
				Component: r.Component.Name, Object: o.Ref, Found: o.Found, Change: o.Change, drift: o.Drift,
			})
		}
	}
	return s
}

// Moved compares a plan with the same one made of the present world. It returns what moved so that the plan must not be
// run as it is, one fact each, and what is otherwise without a meaning for the plan.
//
// A plan's decisions rest on the management cluster, on what is installed, on each object of the release, and on the
// checks. A workload cluster that came or went is another fleet than the one that somebody agreed to. Machines that were
// scaled are not: no step depends on their number, and the fence takes its own picture when the run starts. A finding that
// is gone speaks for the plan, and one that is there again in other words was read already.
func Moved(then, now *v1alpha1.PlanSpec, before, after Snapshot) (moved, noted []string) {
	if then.Base.ClusterUID != now.Base.ClusterUID {
		return []string{fmt.Sprintf("it is for another management cluster (%s, this is %s)", then.Base.ClusterUID, now.Base.ClusterUID)}, nil
	}
	if before.Newest != after.Newest {
		moved = append(moved, fmt.Sprintf("run %s was made", or(after.Newest, "none is left, "+before.Newest)))
	}
	moved = append(moved, changed("Kubernetes is at %s, was at %s", then.Base.KubernetesVersion, now.Base.KubernetesVersion)...)
	moved = append(moved, changed("the platform is at %s, was at %s", then.Base.PlatformVersion, now.Base.PlatformVersion)...)
	moved = append(moved, clusters(before.Clusters, after.Clusters)...)
	moved = append(moved, movedComponents(then, now)...)
	moved = append(moved, movedObjects(then, now, before.Objects, after.Objects)...)
	moved = append(moved, newFindings(then.Findings, now.Findings)...)
	if len(moved) == 0 {
		moved = decisions(then, now)
	}
	if then.Base.Machines != now.Base.Machines {
		noted = append(noted, fmt.Sprintf("there are %d Machines, there were %d: nothing in the plan depends on that", now.Base.Machines, then.Base.Machines))
	}
	return moved, noted
}

func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

func changed(format, then, now string) []string {
	if then == now {
		return nil
	}
	return []string{fmt.Sprintf(format, or(now, "none"), or(then, "none"))}
}

func clusters(before, after map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		switch uid, known := before[key]; {
		case !known:
			out = append(out, "Cluster "+key+" has appeared")
		case uid != after[key]:
			out = append(out, "Cluster "+key+" was deleted and made anew")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[key]; !there {
			out = append(out, "Cluster "+key+" is gone")
		}
	}
	return out
}

func movedComponents(then, now *v1alpha1.PlanSpec) []string {
	var out []string
	for _, c := range now.Components {
		i := slices.IndexFunc(then.Components, func(o v1alpha1.PlannedComponent) bool { return o.Name == c.Name })
		if i < 0 {
			continue // both are of one release
		}
		if was := then.Components[i]; was.From != c.From {
			out = append(out, fmt.Sprintf("component %s is at %s, was at %s", c.Name, or(c.From, "no version"), or(was.From, "no version")))
		} else {
			out = append(out, prunes(was, c)...)
		}
	}
	return out
}

// prunes tells what would be removed that would not have been, or the other way round.
func prunes(then, now v1alpha1.PlannedComponent) []string {
	var out []string
	for _, r := range now.Prune {
		if !slices.Contains(then.Prune, r) {
			out = append(out, fmt.Sprintf("%s of %s has appeared, which the release does not have", world.Ref(r), now.Name))
		}
	}
	for _, r := range then.Prune {
		if !slices.Contains(now.Prune, r) {
			out = append(out, fmt.Sprintf("%s of %s is gone, which was to be removed", world.Ref(r), now.Name))
		}
	}
	return out
}

// named is how many objects of a component are named for each thing that may have happened to them.
const named = 5

// movedObjects tells of each object whose difference to the release is another one. A component whose version moved says
// that for all of its objects. Of many objects to which the same happened the first ones are named.
func movedObjects(then, now *v1alpha1.PlanSpec, before, after []ObjectState) []string {
	was := map[world.Ref]ObjectState{}
	for _, o := range before {
		was[o.Object] = o
	}
	var out []string
	for i, c := range now.Components {
		if i < len(then.Components) && then.Components[i].From == c.From {
			out = append(out, fates(c.Name, was, after)...)
		}
	}
	return out
}

func fates(component string, was map[world.Ref]ObjectState, after []ObjectState) []string {
	var out []string
	count := map[string]int{}
	for _, o := range after {
		old, known := was[o.Object]
		if !known || o.Component != component {
			continue
		}
		what, detail := fate(old, o)
		if what == "" {
			continue
		}
		if count[what]++; count[what] <= named {
			out = append(out, fmt.Sprintf("%s of %s %s%s", o.Object, component, what, detail))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		if more := count[what] - named; more > 0 {
			out = append(out, fmt.Sprintf("%d more objects of %s: each %s", more, component, what))
		}
	}
	return out
}

// fate says what happened to an object, and in what it is another one; empty if nothing did that matters.
func fate(then, now ObjectState) (what, detail string) {
	switch {
	case !then.Found && now.Found:
		return "has appeared", ""
	case then.Found && !now.Found:
		return "is gone", ""
	case then.Change == now.Change: // whose fields they are may have changed, which no step depends on
		return "", ""
	case now.Change == "":
		return "is already as the release has it", ""
	}
	return "was changed", ", the release would now change: " + now.drift
}

// newFindings are those that whoever saved the plan has not seen. Those about the same objects are the same.
func newFindings(then, now []v1alpha1.Finding) []string {
	key := func(f v1alpha1.Finding) string {
		about := f.Summary
		if len(f.Objects) > 0 {
			about = fmt.Sprint(f.Objects)
		}
		return f.ID + "\x00" + string(f.Verdict) + "\x00" + about
	}
	seen := map[string]bool{}
	for _, f := range then {
		seen[key(f)] = true
	}
	var out []string
	for _, f := range now {
		if f.Verdict != v1alpha1.VerdictPass && !seen[key(f)] {
			out = append(out, fmt.Sprintf("finding %s is new: %s", f.ID, f.Summary))
		}
	}
	return out
}

// decisions compares what would be done, for the case that no fact explains a difference: another version of Capstan may
// decide otherwise.
func decisions(then, now *v1alpha1.PlanSpec) []string {
	var out []string
	for _, c := range now.Components {
		i := slices.IndexFunc(then.Components, func(o v1alpha1.PlannedComponent) bool { return o.Name == c.Name })
		if i < 0 {
			continue
		}
		if fields := otherFields(decided(then.Components[i]), decided(c)); len(fields) > 0 {
			out = append(out, fmt.Sprintf("component %s would be handled otherwise: %s", c.Name, strings.Join(fields, ", ")))
		}
	}
	if !slices.Equal(then.SelfHosted, now.SelfHosted) {
		out = append(out, fmt.Sprintf("the Clusters that are the management cluster itself are %v, were %v", now.SelfHosted, then.SelfHosted))
	}
	id := func(steps []v1alpha1.PlannedStep) []string {
		var ids []string
		for _, s := range steps {
			ids = append(ids, s.ID)
		}
		return ids
	}
	before, after := id(then.Steps), id(now.Steps)
	for _, s := range after {
		if !slices.Contains(before, s) {
			out = append(out, "step "+s+" would be new")
		}
	}
	for _, s := range before {
		if !slices.Contains(after, s) {
			out = append(out, "step "+s+" would be gone")
		}
	}
	return out
}

// decided returns a planned component without what is counted rather than decided: objects come and go.
func decided(c v1alpha1.PlannedComponent) v1alpha1.PlannedComponent {
	c.Changes = 0
	c.Migrate = slices.Clone(c.Migrate)
	for i := range c.Migrate {
		c.Migrate[i].Objects = 0
	}
	return c
}

// otherFields names the fields in which two components differ, with their values where those are short.
func otherFields(then, now v1alpha1.PlannedComponent) []string {
	a, b := fieldsOf(then), fieldsOf(now)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, both := b[name]; !both {
			b[name] = json.RawMessage("none")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		was, is := string(a[name]), string(b[name])
		switch {
		case was == is:
		case len(was)+len(is) > shortValue:
			out = append(out, name)
		default:
			out = append(out, fmt.Sprintf("%s %s, was %s", name, is, or(was, "none")))
		}
	}
	return out
}

// shortValue is how long two values may be to be shown.
const shortValue = 40

func fieldsOf(c v1alpha1.PlannedComponent) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	raw, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil { // it has no types that can't be encoded; if it ever had, plans would differ rather than be taken as equal
		out["error"] = json.RawMessage(err.Error())
	}
	return out
}
