// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/world"
)

// mostPools is up to how many pools a screen lists; of more it lists those that are not as they should be.
const mostPools = 40

// PoolState says in one word how a control plane or a pool is.
type PoolState string

const (
	// PoolSettled has all nodes that it wants at the version that it wants.
	PoolSettled PoolState = "Settled"
	// PoolRolling is on its way.
	PoolRolling PoolState = "Rolling"
	// PoolHeld gets no new Machines.
	PoolHeld PoolState = "Held"
	// PoolBehind has finished its roll, with nodes at another version.
	PoolBehind PoolState = "Behind"
)

// StatusPool is a control plane or a worker pool.
type StatusPool struct {
	Cluster      string                   `json:"cluster"`
	Object       v1alpha1.ObjectReference `json:"object"`
	ControlPlane bool                     `json:"controlPlane,omitempty"`
	// Wanted is the version that it asks for.
	Wanted string `json:"wanted,omitempty"`
	// Nodes counts its nodes by the version that they have.
	Nodes     map[string]int `json:"nodes"`
	Desired   int64          `json:"desired"`
	Current   int64          `json:"current"`
	Ready     int64          `json:"ready"`
	Available int64          `json:"available"`
	UpToDate  int64          `json:"upToDate"`
	State     PoolState      `json:"state"`
	// Trouble says what is wrong, or what it waits for.
	Trouble []string `json:"trouble,omitempty"`
}

// StatusHook is a lifecycle hook that keeps a cluster waiting.
type StatusHook struct {
	Cluster    string           `json:"cluster"`
	Version    string           `json:"version"`
	Hook       string           `json:"hook"`
	Extensions []string         `json:"extensions"`
	Message    string           `json:"message,omitempty"`
	Since      *metav1.Time     `json:"since,omitempty"`
	Age        *metav1.Duration `json:"age,omitempty"`
}

// StatusPause is a paused object.
type StatusPause struct {
	Cluster string                   `json:"cluster,omitempty"`
	Object  v1alpha1.ObjectReference `json:"object"`
	Where   string                   `json:"where"`
	// Run is the run of Capstan that holds it, empty if none does.
	Run string `json:"run,omitempty"`
	By  string `json:"by,omitempty"`
}

// Nodes is the part of a status that is about workload clusters.
type Nodes struct {
	// Seen is what was seen, nil if nothing was.
	Seen *world.Survey
	// Error says why a part was not; empty if all was.
	Error string
	// Now is when.
	Now time.Time
}

// Faults are the pools that need somebody: their roll is finished and their nodes are at another version.
func (d *Nodes) Faults() []string {
	var out []string
	for _, p := range d.pools() {
		if p.State == PoolBehind {
			out = append(out, p.Trouble...)
		}
	}
	return out
}

func (d *Nodes) clusters() []world.NodeCluster {
	if d == nil || d.Seen == nil || d.Seen.Nodes == nil {
		return nil
	}
	return d.Seen.Nodes.Clusters
}

func (d *Nodes) pools() []StatusPool {
	clusters := d.clusters()
	var out []StatusPool
	for i := range clusters {
		c := &clusters[i]
		if cp := c.ControlPlane; cp != nil {
			p := statusPool(c, cp.Ref, cp.Version, cp.Counts, cp.Nodes)
			p.ControlPlane = true
			if cp.Reached != "" && cp.Moving() {
				p.State = PoolRolling
				p.Trouble = []string{fmt.Sprintf("%s of cluster %s is at %s, on its way to %s", cp.Ref, c.Key(), cp.Reached, cp.Version)}
			}
			out = append(out, p)
		}
		for k := range c.Pools {
			pool := &c.Pools[k]
			p := statusPool(c, pool.Ref, pool.Version, pool.Counts, pool.Nodes)
			if held := check.Held(c, pool); len(held) > 0 {
				p.State, p.Trouble = PoolHeld, held
			}
			if words := check.Behind(pool); words != "" {
				p.State, p.Trouble = PoolBehind, append([]string{words + " in cluster " + c.Key()}, p.Trouble...)
			}
			out = append(out, p)
		}
	}
	return out
}

func statusPool(c *world.NodeCluster, ref world.Ref, wanted string, n world.Counts, nodes map[string]int) StatusPool {
	p := StatusPool{
		Cluster: c.Key(), Object: v1alpha1.ObjectReference(ref), Wanted: wanted, Nodes: nodes, Desired: n.Desired, Current: n.Current,
		Ready: n.Ready, Available: n.Available, UpToDate: max(n.UpToDate, 0), State: PoolRolling,
	}
	if p.Nodes == nil {
		p.Nodes = map[string]int{}
	}
	if n.Settled() {
		p.State = PoolSettled
	}
	return p
}

func (d *Nodes) hooks() []StatusHook {
	var out []StatusHook
	for _, c := range d.clusters() {
		if c.Topology == nil {
			continue
		}
		for _, h := range c.Topology.Hooks {
			s := StatusHook{Cluster: c.Key(), Version: c.Topology.Version, Hook: h.Hook, Extensions: h.Extensions, Message: h.Message}
			if s.Extensions == nil {
				s.Extensions = []string{}
			}
			if since := c.Topology.Since; !since.IsZero() {
				s.Since, s.Age = &metav1.Time{Time: since}, &metav1.Duration{Duration: d.Now.Sub(since).Round(time.Second)}
			}
			out = append(out, s)
		}
	}
	return out
}

func (d *Nodes) pauses() []StatusPause {
	if d == nil || d.Seen == nil {
		return nil
	}
	var out []StatusPause
	for _, p := range d.Seen.Pauses {
		out = append(out, StatusPause{Cluster: p.Cluster, Object: v1alpha1.ObjectReference(p.Object), Where: p.Where, Run: p.Run, By: p.By})
	}
	return out
}

// text returns the part of the screen, empty where there is nothing to say.
func (d *Nodes) text(s Style) string {
	if d == nil {
		return ""
	}
	var b strings.Builder
	if d.Error != "" {
		b.WriteString("\n" + s.warn("Nodes not observed:") + " " + d.Error + "\n")
	}
	b.WriteString(d.poolTable())
	for _, p := range d.pools() {
		for _, line := range p.Trouble {
			mark := s.warn("WAITS")
			if p.State == PoolBehind {
				mark = s.bad("FAULT")
			}
			b.WriteString("  " + mark + "  " + line + "\n")
		}
	}
	for _, h := range d.hooks() {
		b.WriteString("  " + s.warn("WAITS") + "  " + h.words() + "\n")
	}
	b.WriteString(d.pauseLines(s))
	return b.String()
}

func (d *Nodes) poolTable() string {
	pools := d.pools()
	if len(pools) == 0 {
		return ""
	}
	t := newTable("CLUSTER", "KIND", "NAME", "WANTED", "NODES", "READY", "STATE")
	left := 0
	for _, p := range pools {
		if len(pools) > mostPools && p.State == PoolSettled {
			left++
			continue
		}
		t.add(p.Cluster, p.Object.Kind, p.Object.Name, p.Wanted, versions(p.Nodes), fmt.Sprintf("%d of %d", p.Ready, p.Desired), string(p.State))
	}
	out := "\n"
	if len(t.rows) > 1 {
		out += t.String()
	}
	if left > 0 {
		out += fmt.Sprintf("%d more control planes and pools are settled; -o json lists them all\n", left)
	}
	return out
}

// versions lists how many nodes have which version: "3 at v1.30.4, 1 at v1.31.2".
func versions(nodes map[string]int) string {
	var out []string
	for _, v := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, fmt.Sprintf("%d at %s", nodes[v], or(v, "no version")))
	}
	return strings.Join(out, ", ")
}

func (h StatusHook) words() string {
	out := fmt.Sprintf("Cluster %s waits on its way to %s for hook %s of ExtensionConfig %s", h.Cluster, h.Version, h.Hook, or(strings.Join(h.Extensions, ", "), "(none has it)"))
	if h.Age != nil {
		out += ", for " + span(h.Age.Duration)
	}
	if h.Message != "" {
		out += fmt.Sprintf(": %q", h.Message)
	}
	return out
}

func (d *Nodes) pauseLines(s Style) string {
	if d.Seen == nil {
		return ""
	}
	var b strings.Builder
	others := 0
	for _, p := range d.Seen.Pauses {
		if others >= mostPools && p.Run == "" {
			others++
			continue
		}
		mark := s.warn("PAUSED")
		if p.Run != "" {
			mark = s.bad("HELD")
		}
		if p.Run == "" {
			others++
		}
		fmt.Fprintf(&b, "  %s  %s\n      To do: %s\n", mark, check.PauseWords(p), check.Unpause(p))
	}
	if more := others - mostPools; more > 0 {
		fmt.Fprintf(&b, "  %d more are paused; -o json lists them all\n", more)
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nPaused\n" + b.String()
}
