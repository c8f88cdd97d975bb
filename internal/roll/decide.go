// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/world"
)

// fewest is how many replicas a control plane needs to go without one of them.
const fewest = 3

// topology refuses a pool that a ClusterClass makes: it would set a template back that is not its own.
func (p *planner) topology(c *world.PoolCluster, pool *world.PoolOwner, fields *FieldMap) {
	cluster := c.Ref
	field := strings.Join(fields.Fields[0].Path, ".")
	p.block(IDOwner,
		fmt.Sprintf("%s of cluster %s is made by ClusterClass %s, which would set a new template back at once", pool.Ref, c.Key, c.Class),
		fmt.Sprintf("change the image where the class takes it from: a variable in spec.topology of Cluster %s if its class patches %s with one, or else the class's %s; "+
			"Cluster API then rolls by itself: kubectl -n %s edit cluster %s", c.Key, field, pool.Template.GetKind(), cluster.Namespace, cluster.Name),
		cluster, pool.Ref)
}

// watches tells that a health check selects Machines of an owner.
func watches(h *world.HealthCheck, owner world.Ref) bool {
	return slices.Contains(h.Pools, owner.Kind+" "+owner.Name)
}

// follows tells whether an owner would follow a change of its template by itself; if not, what keeps it is found.
func (p *planner) follows(c *world.PoolCluster, pool *world.PoolOwner) bool {
	ok := true
	if pool.OnDelete {
		ok = false
		p.block(IDOwner, fmt.Sprintf("%s of cluster %s has strategy OnDelete: it replaces a Machine only after somebody deleted it, so a roll would never end", pool.Ref, c.Key),
			fmt.Sprintf("set its strategy to RollingUpdate: kubectl -n %s edit machinedeployment %s", pool.Ref.Namespace, pool.Ref.Name), pool.Ref)
	}
	if pool.Paused {
		ok = false
		p.block(IDOwner, fmt.Sprintf("%s of cluster %s is paused (%s): it would take a new template and do nothing", pool.Ref, c.Key, pool.PausedBy),
			"find out who paused it and why, then take the pause away", pool.Ref)
	}
	if !pool.ControlPlane && zero(pool.MaxSurge) && none(pool.MaxUnavailable) {
		ok = false
		p.block(IDStrategy, fmt.Sprintf("%s of cluster %s has maxSurge 0 and maxUnavailable 0: no Machine may be made before one goes, and none may go before one is made", pool.Ref, c.Key),
			fmt.Sprintf("set maxSurge to 1 if a host is free, or else maxUnavailable to 1: kubectl -n %s edit machinedeployment %s", pool.Ref.Namespace, pool.Ref.Name), pool.Ref)
	}
	if pool.Replicas < 1 {
		p.find(IDOwner, v1alpha1.VerdictWarn, fmt.Sprintf("%s of cluster %s wants no Machines: it gets the template, and nothing is replaced", pool.Ref, c.Key), "", pool.Ref)
	}
	return ok
}

// decide chooses the strategy of one pool and puts it in the plan.
func (p *planner) decide(c *candidate) error {
	asked := cmp.Or(p.options.Strategy, Auto)
	if c.fields.Hosts == "" {
		return p.withoutHosts(c, asked)
	}
	if c.stock == nil {
		return nil // which hosts it may have could not be read, which was found
	}
	spare := c.Replicas < 1 || c.stock.sure(c.ever)
	switch {
	case spare && asked != ScaleIn:
		c.stock.roll(c.ever, c.held)
		return p.add(c, v1alpha1.StrategySurge, p.standby(c), p.settings(c, v1alpha1.StrategySurge))
	case asked == Surge:
		p.block(IDSpare, fmt.Sprintf("%s of cluster %s needs 1 free host, has 0: %s", c.Ref, c.cluster.Key, p.whyNot(c)),
			fmt.Sprintf("add a host that %s may have; or %s", c.Ref.Name, p.insteadOfSurge(c)), c.Ref)
		return nil
	}
	if p.tooSmall(c) {
		return nil
	}
	why := "no host is free for it: the old Machine goes first, and the new one gets its host"
	if !spare && asked == Auto {
		p.find(IDSpare, v1alpha1.VerdictWarn, fmt.Sprintf("%s of cluster %s needs 1 free host, has 0, for the new Machine to come first; so the old one goes first: %s", c.Ref, c.cluster.Key, p.whyNot(c)),
			"to have the new Machine first, add a host that it may have", c.Ref)
	}
	if spare {
		why = "scale-in was asked for: the old Machine goes first, and the new one gets its host"
	}
	return p.reuse(c, why)
}

// insteadOfSurge is the other way out of having no spare host.
func (p *planner) insteadOfSurge(c *candidate) string {
	if c.ControlPlane && c.Replicas < fewest {
		return fmt.Sprintf("scale it to %d first, and take --strategy scale-in", fewest)
	}
	if c.Replicas == 1 {
		return "scale it to 2 first, and take --strategy scale-in (maxSurge 0, maxUnavailable 1)"
	}
	return "take the old Machine away first (maxSurge 0, maxUnavailable 1): --strategy scale-in"
}

// tooSmall refuses to take a Machine away that the pool can't do without.
func (p *planner) tooSmall(c *candidate) bool {
	n, enough := c.Replicas, int64(2)
	if c.ControlPlane {
		enough = fewest
	}
	if n >= enough {
		return false
	}
	var why string
	switch {
	case !c.ControlPlane:
		why = "without it the pool has no Machine"
	default:
		why = fmt.Sprintf("etcd and Cluster API need %d or more for that", fewest)
	}
	first, hosts := "take --strategy surge, so that the new Machine comes first", ""
	if c.fields.Hosts != "" {
		first, hosts = "add a host that it may have, so that the new Machine comes first", fmt.Sprintf(". For the new one to come first it needs 1 free host, has 0: %s", p.whyNot(c))
		if c.stock.sure(c.ever) {
			first, hosts = "take --strategy surge, for which a host is free", ""
		}
	}
	p.block(IDStrategy, fmt.Sprintf("%s of cluster %s has %s, so the old Machine can't go first: %s%s", c.Ref, c.cluster.Key, phrase.Count(n, "replica"), why, hosts),
		fmt.Sprintf("%s; or scale it to %d", first, enough), c.Ref)
	return true
}

// reuse plans a roll that takes the old Machine away first and keeps its host.
func (p *planner) reuse(c *candidate, why string) error {
	settings := p.settings(c, v1alpha1.StrategyScaleIn)
	if c.fields.Hosts == HostsBareMetal {
		// Which template's word counts differs between versions of the provider, so both say it.
		for _, t := range []*unstructured.Unstructured{c.Template, c.next} {
			settings = append(settings, v1alpha1.RollSetting{
				Object: v1alpha1.ObjectReference(world.RefOf(t)), Path: nodeReusePath(), Before: raw(c.Template, nodeReusePath()), During: "true",
				Why: "the new Machine gets the host of the old one",
			})
		}
		if err := unstructured.SetNestedField(c.next.Object, true, nodeReusePath()...); err != nil {
			return fmt.Errorf("turn on the reuse of hosts in %s: %w", world.RefOf(c.next), err)
		}
	}
	if c.ControlPlane {
		why += fmt.Sprintf("; quorum %d of %d during each step, of which etcd needs %d", c.Replicas-1, c.Replicas, c.Replicas/2+1)
	}
	return p.add(c, v1alpha1.StrategyScaleIn, why, settings)
}

// withoutHosts plans a pool whose infrastructure makes machines when asked to: as its own settings say, or as was asked.
func (p *planner) withoutHosts(c *candidate, asked string) error {
	zero := zero(c.MaxSurge)
	if asked == ScaleIn || asked == Auto && zero {
		if p.tooSmall(c) {
			return nil
		}
		why := "its own maxSurge is 0"
		if asked == ScaleIn {
			why = "scale-in was asked for"
		}
		return p.add(c, v1alpha1.StrategyScaleIn, why+": the old Machine goes first", p.settings(c, v1alpha1.StrategyScaleIn))
	}
	return p.add(c, v1alpha1.StrategySurge, "its infrastructure makes machines when asked to: the new Machine comes first", p.settings(c, v1alpha1.StrategySurge))
}

// settings are the fields that have another value during a roll: one Machine at a time, and no health check that replaces
// Machines meanwhile.
func (p *planner) settings(c *candidate, s v1alpha1.RollStrategy) []v1alpha1.RollSetting {
	surge, unavailable, why := "1", "0", "the new Machine comes before the old one goes"
	if s == v1alpha1.StrategyScaleIn {
		surge, unavailable, why = "0", "1", "the old Machine goes before the new one comes"
	}
	var out []v1alpha1.RollSetting
	set := func(f world.Setting, preset, during string) {
		if len(f.Path) > 0 && cmp.Or(f.Value, preset) != during {
			out = append(out, v1alpha1.RollSetting{Object: c.object(), Path: f.Path, Before: f.Value, During: during, Why: why})
		}
	}
	set(c.MaxSurge, "1", surge)
	if !c.ControlPlane {
		set(c.MaxUnavailable, "0", unavailable)
	}
	if c.LeftPaused {
		out = append(out, v1alpha1.RollSetting{
			Object: c.object(), Path: []string{"metadata", "annotations", nodes.PausedAnnotation}, During: "null",
			Why: "a roll that was aborted left it paused; this one goes on",
		})
	}
	for i := range c.cluster.Checks {
		h := &c.cluster.Checks[i]
		if !h.Paused && watches(h, c.Ref) {
			out = append(out, v1alpha1.RollSetting{
				Object: v1alpha1.ObjectReference(h.Ref), Path: []string{"metadata", "annotations", nodes.PausedAnnotation}, Before: h.Before, During: strconv.Quote(v1alpha1.RollPausedValue),
				Why: "it would replace Machines that the roll is about",
			})
		}
	}
	return out
}

// none tells that a field is zero or absent.
func none(s world.Setting) bool { return s.Value == "" || zero(s) }

// zero tells that a number or a percentage is none.
func zero(s world.Setting) bool {
	v := strings.Trim(s.Value, `"`)
	return v == "0" || v == "0%"
}

// raw is the value of a field as JSON, empty where it is absent.
func raw(u *unstructured.Unstructured, path []string) string {
	v, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil || !found || v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// standby says which host makes a surge possible.
func (p *planner) standby(c *candidate) string {
	var free []string
	for i, h := range c.hosts {
		if c.ever.has(i) && c.demand.now(h) {
			free = append(free, h.Name)
		}
	}
	if len(free) == 0 {
		return "the pool before it leaves a host free: the new Machine comes first"
	}
	return fmt.Sprintf("%s free for it (%s): the new Machine comes first", be(len(free), "host"), phrase.Some(free))
}

func be(n int, noun string) string {
	if n == 1 {
		return phrase.Count(n, noun) + " is"
	}
	return phrase.Count(n, noun) + " are"
}

// whyNot says of every host why a pool can't take it.
func (p *planner) whyNot(c *candidate) string {
	if len(c.hosts) == 0 {
		return "there are no hosts"
	}
	const most = 40
	var out []string
	for _, h := range c.hosts[:min(len(c.hosts), most)] {
		why := cmp.Or(c.demand.Refuses(h), "it is free, but a pool that is rolled before may take it")
		name := h.Name
		if h.Namespace != c.Ref.Namespace {
			name = h.Namespace + "/" + h.Name
		}
		out = append(out, name+": "+why)
	}
	if more := len(c.hosts) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %s more", phrase.Count(more, "host")))
	}
	return strings.Join(out, "; ")
}
