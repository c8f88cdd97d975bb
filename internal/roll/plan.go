// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/world"
)

// IDs of what a plan finds. Package check has a page for each.
const (
	// IDTemplate is about the machine template: that its image can be changed, and where.
	IDTemplate = "CAP-ROLL-TEMPLATE"
	// IDOwner is about an owner that would not follow, or that something else steers.
	IDOwner = "CAP-ROLL-OWNER"
	// IDStrategy is about which Machine goes first.
	IDStrategy = "CAP-ROLL-STRATEGY"
	// IDSpare is about hosts that are to be had.
	IDSpare = "CAP-HOST-SPARE"
)

// The strategies that can be asked for.
const (
	Auto    = "auto"
	Surge   = "surge"
	ScaleIn = "scale-in"
)

// Options are what a person says about a roll.
type Options struct {
	// Strategy is Auto, Surge or ScaleIn; empty means Auto.
	Strategy string
	// Pools are the names of the owners to roll, in this order behind the control plane; none means all, by name.
	Pools []string
	// Version is the Kubernetes version to go to with the image; empty to stay.
	Version string
	// Maps say where templates have their images.
	Maps Maps
}

// Result is the plan of a roll.
type Result struct {
	// Pools are in the order of their rolls.
	Pools []v1alpha1.PlannedPool
	// Templates are the manifests of the new templates by their digest, which PlannedPool.Artifact holds.
	Templates map[string][]byte
	// Findings are what speaks against it. Each has its ID.
	Findings []v1alpha1.Finding
	// UsesURL tells that some of the pools get the image from its URL, and not by a name that a cloud knows.
	UsesURL bool
	// UpToDate are the owners that have the image already.
	UpToDate []world.Ref
	// Hosts tell of each pool on bare metal which host could be taken, and why not.
	Hosts []PoolHosts
}

// PoolHosts are the hosts as one pool sees them.
type PoolHosts struct {
	Cluster string
	Owner   world.Ref

	demand Demand
	hosts  []*world.BareHost
}

// HostVerdict is one host as a pool sees it.
type HostVerdict struct {
	Namespace, Name string
	// Why says why it can't be taken; empty if it can.
	Why string
}

// Verdicts judges every host. It is not done ahead, as hosts times pools are many.
func (h PoolHosts) Verdicts() []HostVerdict {
	out := make([]HostVerdict, 0, len(h.hosts))
	for _, host := range h.hosts {
		out = append(out, HostVerdict{Namespace: host.Namespace, Name: host.Name, Why: h.demand.Refuses(host)})
	}
	return out
}

// Plan decides how an image gets on the Machines of clusters: which pools, in which order, with which templates, and
// whether the new Machine or the old one goes first.
func Plan(clusters []world.PoolCluster, image *v1alpha1.NodeImage, o Options) (*Result, error) {
	p := &planner{image: image, options: o, out: &Result{Templates: map[string][]byte{}}}
	for i := range clusters {
		if err := p.templates(&clusters[i]); err != nil {
			return nil, err
		}
	}
	p.missing(clusters)
	p.hosts(clusters)
	for _, c := range p.candidates {
		if err := p.decide(c); err != nil {
			return nil, err
		}
	}
	p.state()
	return p.out, nil
}

// planner is a plan in the making.
type planner struct {
	image   *v1alpha1.NodeImage
	options Options
	out     *Result
	// candidates are the pools that get another template, in order.
	candidates []*candidate
	// planned are those that are in the plan.
	planned []*candidate
}

// candidate is a pool that gets another template.
type candidate struct {
	*world.PoolOwner

	cluster *world.PoolCluster
	fields  *FieldMap
	next    *unstructured.Unstructured
	// demand and what follows is for bare metal: what it asks of a host, the hosts that it could ever take, those it has.
	demand     Demand
	ever, held hostSet
	// reach are both together.
	reach hostSet
	// behind are the pools of the plan, by index, that have to be done before it.
	behind hostSet
	// stock are the free hosts of its namespace, nil without bare metal.
	stock *stock
	hosts []*world.BareHost
}

func (c *candidate) object() v1alpha1.ObjectReference { return v1alpha1.ObjectReference(c.Ref) }

func (p *planner) find(id string, v v1alpha1.Verdict, summary, remedy string, objects ...world.Ref) {
	f := v1alpha1.Finding{ID: id, Verdict: v, Summary: summary, Remedy: remedy}
	for _, o := range objects {
		f.Objects = append(f.Objects, v1alpha1.ObjectReference(o))
	}
	p.out.Findings = append(p.out.Findings, f)
}

func (p *planner) block(id, summary, remedy string, objects ...world.Ref) {
	p.find(id, v1alpha1.VerdictBlock, summary, remedy, objects...)
}

// templates makes the new templates of a cluster's pools.
func (p *planner) templates(c *world.PoolCluster) error {
	for _, pool := range p.ordered(c) {
		if pool.Template == nil {
			p.block(IDTemplate, fmt.Sprintf("%s of cluster %s names machine template %q, which is not there", pool.Ref, c.Key, pool.TemplateName),
				fmt.Sprintf("point %s of it to a template that is there", pool.TemplateRef), pool.Ref)
			continue
		}
		fields, next, err := p.template(c, pool)
		if err != nil {
			if blocked, ok := problemOf(err); ok {
				p.block(IDTemplate, fmt.Sprintf("%s of cluster %s: %s", pool.Ref, c.Key, blocked.Message), blocked.Remedy, pool.Ref, world.RefOf(pool.Template))
				continue
			}
			return err
		}
		if next == nil && unfinished(pool) {
			next = bare(pool.Template)
			next.SetName(pool.Template.GetName())
		}
		switch {
		case next == nil && !p.moves(pool):
			p.out.UpToDate = append(p.out.UpToDate, pool.Ref)
		case pool.Topology:
			p.topology(c, pool, fields)
		case !p.follows(c, pool):
			// What keeps it was found.
		case next == nil:
			p.block(IDTemplate, fmt.Sprintf("%s of cluster %s has image %s already, and would go to Kubernetes %s alone", pool.Ref, c.Key, p.image.Name, p.options.Version),
				"change the version by itself, or name an image that holds it", pool.Ref)
		default:
			p.candidates = append(p.candidates, &candidate{PoolOwner: pool, cluster: c, fields: fields, next: next})
		}
	}
	return nil
}

// unfinished tells that an owner has the template, and Machines that are of another one: a roll to it was ended on the way.
func unfinished(pool *world.PoolOwner) bool {
	return slices.ContainsFunc(pool.Machines, func(m world.RolledMachine) bool { return m.Template != "" && m.Template != pool.TemplateName })
}

// moves tells that a pool goes to another Kubernetes version.
func (p *planner) moves(pool *world.PoolOwner) bool {
	return p.options.Version != "" && p.options.Version != pool.Version
}

func (p *planner) template(c *world.PoolCluster, pool *world.PoolOwner) (*FieldMap, *unstructured.Unstructured, error) {
	fields, err := p.options.Maps.For(pool.Template)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(fields.Fields, func(f Field) bool { return f.Value == "url" }) {
		p.out.UsesURL = true
	}
	edited := len(drifted(fields, pool, c.Hosts)) > 0
	next, err := p.options.Maps.Template(pool.Template, p.image, TemplateOptions{Anew: edited})
	return fields, next, err
}

// ordered returns the pools that are meant: the control plane, then the others as named, or by name.
func (p *planner) ordered(c *world.PoolCluster) []*world.PoolOwner {
	var out []*world.PoolOwner
	for i := range c.Owners {
		if pool := &c.Owners[i]; len(p.options.Pools) == 0 || slices.Contains(p.options.Pools, pool.Ref.Name) {
			out = append(out, pool)
		}
	}
	slices.SortStableFunc(out, func(a, b *world.PoolOwner) int {
		if a.ControlPlane != b.ControlPlane {
			if a.ControlPlane {
				return -1
			}
			return 1
		}
		if n := slices.Index(p.options.Pools, a.Ref.Name) - slices.Index(p.options.Pools, b.Ref.Name); n != 0 {
			return n
		}
		return strings.Compare(a.Ref.Name, b.Ref.Name)
	})
	return out
}

// once leaves out a setting that is there already: the old template and the new one may be the same.
func once(settings []v1alpha1.RollSetting) []v1alpha1.RollSetting {
	var out []v1alpha1.RollSetting
	for _, s := range settings {
		if !slices.ContainsFunc(out, func(o v1alpha1.RollSetting) bool { return o.Object == s.Object && slices.Equal(o.Path, s.Path) }) {
			out = append(out, s)
		}
	}
	return out
}

// missing finds names that no pool has.
func (p *planner) missing(clusters []world.PoolCluster) {
	for _, name := range p.options.Pools {
		var have []string
		for i := range clusters {
			for j := range clusters[i].Owners {
				have = append(have, clusters[i].Owners[j].Ref.Name)
			}
		}
		if !slices.Contains(have, name) {
			slices.Sort(have)
			p.block(IDOwner, fmt.Sprintf("No control plane or MachineDeployment of the clusters that are meant is named %s", name),
				"name some of these: "+strings.Join(slices.Compact(have), ", "))
		}
	}
}

// add puts a pool in the plan, behind those that it has to wait for.
func (p *planner) add(c *candidate, strategy v1alpha1.RollStrategy, why string, settings []v1alpha1.RollSetting) error {
	data, err := release.Encode([]*unstructured.Unstructured{c.next})
	if err != nil {
		return fmt.Errorf("encode %s: %w", world.RefOf(c.next), err)
	}
	digest := release.Digest(data)
	p.out.Templates[digest] = data
	planned := v1alpha1.PlannedPool{
		Cluster: c.cluster.Key, Owner: c.object(), ControlPlane: c.ControlPlane, Replicas: c.Replicas,
		OldTemplate: v1alpha1.ObjectReference(world.RefOf(c.Template)), NewTemplate: v1alpha1.ObjectReference(world.RefOf(c.next)),
		TemplateRef: c.TemplateRef, Artifact: digest, Strategy: strategy, Why: why, Settings: once(settings),
		FromVersion: c.Version, ToVersion: c.Version, Expect: p.image.Spec.Contents, Needs: p.needs(c),
	}
	planned.Expect.Packages = nil // nodes do not report them
	if p.moves(c.PoolOwner) {
		planned.ToVersion, planned.VersionPath = p.options.Version, c.VersionPath
	}
	p.out.Pools = append(p.out.Pools, planned)
	p.planned = append(p.planned, c)
	return nil
}

// needs are the pools before this one: the one before of the same cluster, and those of other clusters that could take the
// same hosts. One that another of them waits for is left out.
func (p *planner) needs(c *candidate) []string {
	var out []string
	c.behind = newHostSet(len(p.candidates))
	for i, other := range slices.Backward(p.planned) {
		shares := c.stock != nil && other.stock == c.stock && other.reach.meets(c.reach)
		if c.behind.has(i) || other.cluster != c.cluster && !shares {
			continue
		}
		out = append(out, nodes.Key(other.object()))
		c.behind.add(i)
		c.behind.join(other.behind)
	}
	slices.Reverse(out)
	return out
}

func problemOf(err error) (*problem.Error, bool) {
	p, ok := err.(*problem.Error) //nolint:errorlint // a refusal of this package is never wrapped
	return p, ok
}
