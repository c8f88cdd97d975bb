// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// view is a pool in the midst of its roll, sorted by what each Machine is up to. Every Machine is in one of the lists.
type view struct {
	roll *roll
	seen *world.PoolState

	// well stay and work; ailing stay, have joined and do not work; coming have yet to join.
	well, ailing, coming []world.RolledMachine
	// held are marked for deletion and wait for their turn; leaving are on their way out.
	held, leaving []world.RolledMachine
}

func (s *roll) view(seen *world.PoolState) *view {
	v := &view{roll: s, seen: seen}
	for _, m := range seen.Machines {
		switch {
		case Held(m):
			v.held = append(v.held, m)
		case !m.Deleting.IsZero():
			v.leaving = append(v.leaving, m)
		case m.Node == "":
			v.coming = append(v.coming, m)
		case v.ail(m) != "":
			v.ailing = append(v.ailing, m)
		default:
			v.well = append(v.well, m)
		}
	}
	return v
}

// ail says what is wrong with a Machine; empty if nothing is.
func (v *view) ail(m world.RolledMachine) string {
	switch {
	case m.Node == "":
		return "has no node yet"
	case !m.NodeReady:
		return cmp.Or(m.NodeTrouble, "its node is not Ready")
	case v.roll.pool.ControlPlane && len(m.Unhealthy) > 0:
		return strings.Join(m.Unhealthy, "; ")
	case m.Remediated:
		return "its health check gave it up"
	case !v.roll.old(m) && len(v.differs(m)) > 0:
		return "its node does not run what the image holds: " + strings.Join(v.differs(m), ", ")
	}
	return ""
}

// differs names what the node of a new Machine reports otherwise than the image's catalog entry.
func (v *view) differs(m world.RolledMachine) []string {
	want, have := v.roll.pool.Expect, m.Contents
	if want.KubeletVersion == "" {
		want.KubeletVersion = v.roll.pool.ToVersion
	}
	var out []string
	for _, f := range []struct{ name, want, have string }{
		{"kubelet", want.KubeletVersion, have.KubeletVersion},
		{"kernel", want.KernelVersion, have.KernelVersion},
		{"OS", want.OSImage, have.OSImage},
		{"container runtime", want.ContainerRuntimeVersion, have.ContainerRuntimeVersion},
		{"architecture", want.Architecture, have.Architecture},
	} {
		if f.want != "" && f.want != f.have {
			out = append(out, fmt.Sprintf("%s is %s, not %s", f.name, cmp.Or(f.have, "not reported"), f.want))
		}
	}
	return out
}

// unlike tells that a node came up and is Ready with something else than the image holds.
func (v *view) unlike() bool {
	return slices.ContainsFunc(v.ailing, func(m world.RolledMachine) bool { return m.NodeReady && !v.roll.old(m) && len(v.differs(m)) > 0 })
}

// desired is how many Machines the owner wants.
func (v *view) desired() int64 { return v.seen.Counts.Desired }

// scaled tells that somebody changed the number of Machines since the plan.
func (v *view) scaled() bool { return v.desired() != v.roll.pool.Replicas }

// finished tells that the roll is over.
func (v *view) finished() bool {
	return !slices.ContainsFunc(v.seen.Machines, v.roll.old) && int64(len(v.well)) == v.desired() && len(v.seen.Machines) == len(v.well) &&
		v.seen.Silent == "" && v.seen.Counts.Settled()
}

// detail is one line: how many are done, then what each that is not at rest is up to.
func (v *view) detail() string {
	done := 0
	for _, m := range v.well {
		if !v.roll.old(m) {
			done++
		}
	}
	parts := []string{fmt.Sprintf("%d of %s replaced", done, phrase.Count(int(v.desired()), "Machine"))}
	for _, m := range slices.Concat(v.leaving, v.coming, v.ailing, v.held) {
		parts = append(parts, v.line(m))
	}
	return strings.Join(parts, "; ")
}

// line says of one Machine where it is, what it does, and since when. It says no age: it is compared with what was said before.
func (v *view) line(m world.RolledMachine) string {
	where := m.Ref.Name
	if m.Host != "" {
		where += " on host " + m.Host
		if m.HostState != "" {
			where += " (" + m.HostState + ")"
		}
	}
	doing, since := "comes up", m.Created
	switch {
	case Held(m):
		doing, since = "waits for its turn", m.Deleting
	case !m.Deleting.IsZero():
		doing, since = leaving(m.BlockerReason), m.Deleting
	case m.Node != "":
		doing, since = v.ail(m), time.Time{}
	}
	out := where + " " + doing
	if !since.IsZero() {
		out += " since " + since.UTC().Format(time.TimeOnly)
	}
	return out
}

// leaving puts the reason of Cluster API's Deleting condition into words.
func leaving(reason string) string {
	switch reason {
	case "DrainingNode":
		return "is being drained"
	case "WaitingForVolumeDetach":
		return "waits until its volumes are detached"
	case "WaitingForPreDrainHook", "WaitingForPreTerminateHook":
		return "waits for a hook"
	case "WaitingForInfrastructureDeletion":
		return "waits until its infrastructure is gone"
	}
	return "is leaving"
}

// mark is the same as long as nothing moves.
func (v *view) mark() string {
	var b strings.Builder
	c := v.seen.Counts
	fmt.Fprintf(&b, "%d/%d/%d/%t;", c.Current, c.Ready, c.UpToDate, v.seen.Silent == "")
	for _, m := range v.seen.Machines {
		fmt.Fprintf(&b, "%s %t %s %s %t %d %s %s %d;", m.UID, m.Deleting.IsZero(), m.Phase, m.Node, m.NodeReady, len(m.Hooks), m.BlockerReason, m.HostState, len(m.Unhealthy))
	}
	return b.String()
}

// causes name what the roll waits for; what waiting will not heal is definite.
func (v *view) causes() []world.Cause {
	var out []world.Cause
	for _, m := range v.ailing {
		if d := v.differs(m); m.NodeReady && !v.roll.old(m) && len(d) > 0 {
			out = append(out, world.Cause{
				Reason: v1alpha1.StopImageMismatch, Object: m.Ref, Definite: true,
				Message: fmt.Sprintf("Node %s of %s does not run what the image holds: %s", m.Node, m.Ref, strings.Join(d, ", ")),
				Remedy:  "no further Machine is taken away; look at what is in the image (`capstan image inspect`), then roll to one that is right with `capstan nodes upgrade`",
			})
		}
	}
	if v.scaled() {
		out = append(out, v.replicasChanged())
	}
	if v.seen.Silent != "" {
		out = append(out, world.Cause{
			Reason: v1alpha1.StopClusterSilent, Object: v.roll.owner(),
			Message: fmt.Sprintf("The API server of cluster %s does not answer: %s", v.roll.pool.Cluster, v.seen.Silent),
			Remedy:  "bring its endpoint back; no Machine is taken away before it answers",
		})
	}
	for _, m := range slices.Concat(v.leaving, v.coming) {
		if c, waits := v.waits(m); waits {
			out = append(out, c)
		}
	}
	for _, m := range v.ailing {
		if len(v.differs(m)) == 0 || v.roll.old(m) || !m.NodeReady {
			out = append(out, world.Cause{
				Reason: v1alpha1.StopMachineUnhealthy, Object: m.Ref, Message: fmt.Sprintf("%s: %s", m.Ref, v.ail(m)),
				Remedy: fmt.Sprintf("repair node %s; no Machine is taken away before it is well", m.Node),
			})
		}
	}
	slices.SortStableFunc(out, func(a, b world.Cause) int {
		switch {
		case a.Definite == b.Definite:
			return 0
		case a.Definite:
			return -1
		}
		return 1
	})
	return out
}

// replicasChanged says who changed the number of Machines in the midst of the roll.
func (v *view) replicasChanged() world.Cause {
	by := ""
	for _, e := range v.seen.Owner.GetManagedFields() {
		if e.FieldsV1 != nil && strings.Contains(string(e.FieldsV1.GetRawBytes()), `"f:replicas"`) && e.Subresource != "status" {
			by = ", set by " + e.Manager
		}
	}
	return world.Cause{
		Reason: v1alpha1.StopReplicasChanged, Object: v.roll.owner(), Definite: true,
		Message: fmt.Sprintf("%s wants %d Machines%s; the plan was made for %d", v.roll.owner(), v.desired(), by, v.roll.pool.Replicas),
		Remedy:  fmt.Sprintf("no Machine is taken away meanwhile: set replicas back to %d, or `capstan abort` and plan anew", v.roll.pool.Replicas),
	}
}

// noHost tells that a new Machine waits for a host, and that none is free or about to be: Cluster API would wait for ever, and
// no object of its own says why. Where the old Machine goes first its host is on its way, so there it is no fault.
func (v *view) noHost(m world.RolledMachine) (world.Cause, bool) {
	if v.roll.pool.Strategy != v1alpha1.StrategySurge || !m.Deleting.IsZero() || m.Host != "" || m.Node != "" || len(v.seen.Hosts) == 0 {
		return world.Cause{}, false
	}
	var taken []string
	for _, h := range v.seen.Hosts {
		why := occupied(h)
		if why == "" {
			return world.Cause{}, false
		}
		taken = append(taken, h.Name+" "+why)
	}
	return world.Cause{
		Reason: v1alpha1.StopNoHost, Object: m.Ref, Definite: true,
		Message: fmt.Sprintf("%s has no host to go to: %s", m.Ref, phrase.Some(taken)),
		Remedy: fmt.Sprintf("add a host, then `capstan resume`; or `capstan abort`, then kubectl -n %s delete machine %s, and roll again: the plan then takes the old Machine first",
			m.Ref.Namespace, m.Ref.Name),
	}, true
}

// occupied says why a host is not to be had and will not be soon; empty if it may be.
func occupied(h world.BareHost) string {
	switch {
	case h.Consumer.Name != "":
		return "is in use by " + h.Consumer.String()
	case h.Error != "":
		return "has an error: " + h.Error
	case h.Deleting:
		return "is being deleted"
	case h.Paused, h.Detached, h.Unhealthy:
		return "is paused, detached or marked as unhealthy"
	case h.Externally:
		return "was provisioned by something else"
	}
	return ""
}

// waits tells what a Machine that comes or goes waits for, if anything says so.
func (v *view) waits(m world.RolledMachine) (world.Cause, bool) {
	if c, found := v.noHost(m); found {
		return c, true
	}
	said := m.Blocker
	if m.HostError != "" {
		said = cmp.Or(said, "its host fails") + fmt.Sprintf(" (host %s, %s: %s)", m.Host, m.HostState, m.HostError)
	}
	if said == "" {
		return world.Cause{}, false
	}
	c := world.Cause{Object: m.Ref, Message: fmt.Sprintf("%s: %s", v.line(m), said)}
	switch {
	case m.HostError != "":
		c.Reason, c.Remedy = v1alpha1.StopHostFailed, fmt.Sprintf("kubectl -n %s describe baremetalhost %s", m.Ref.Namespace, m.Host)
	case m.BlockerReason == "DrainingNode":
		c.Reason, c.Remedy = v1alpha1.StopDrainBlocked, "make room for the Pods that are named, or change their PodDisruptionBudget; nothing is evicted by force"
	case m.BlockerReason == "WaitingForVolumeDetach":
		c.Reason, c.Remedy = v1alpha1.StopVolumeAttached, fmt.Sprintf("kubectl get volumeattachments, in the workload cluster, for node %s", m.Node)
	default:
		c.Reason, c.Remedy = v1alpha1.StopMachineWaits, fmt.Sprintf("kubectl -n %s describe machine %s", m.Ref.Namespace, m.Ref.Name)
	}
	return c, true
}
