// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// Pool is an owner of Machines with its controller, as Cluster API's kubeadm control plane provider behaves: it replaces
// one outdated Machine after the other, and does nothing while one is on its way out or does not work.
type Pool struct {
	// Object is the owner; spec.template names its machine template, spec.replicas and spec.maxSurge say what they say.
	Object *unstructured.Unstructured
	// Machines are in the order in which they were made.
	Machines []*SimMachine
	// Hosts is how many Machines can be on hosts at once.
	Hosts int
	// Contents are what nodes made from a template report.
	Contents map[string]v1alpha1.NodeImageContents
	// Joins and Leaves are how many observations a Machine takes to join and to go.
	Joins, Leaves int
	// Sick are numbers of Machines, counted from 1 as they are made, whose nodes never become Ready.
	Sick map[int]bool
	// WorstDown is the most Machines that did not work at once, of those that the owner wants; MostLeaving the most that were
	// on their way out at once.
	WorstDown, MostLeaving int

	made int
}

// SimMachine is one simulated Machine.
type SimMachine struct {
	Name, Template, Host string
	Hooks                []string
	Deleting             bool
	// Joined tells that its node is there; left counts down to that, and to its end.
	Joined bool
	left   int
}

// NewPool returns a pool at rest, with all its Machines made from a template.
func NewPool(ref world.Ref, replicas int, template string, contents map[string]v1alpha1.NodeImageContents) *Pool {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"namespace": ref.Namespace, "name": ref.Name},
		"spec": map[string]any{"replicas": int64(replicas), "maxSurge": int64(1), "template": template},
	}}
	p := &Pool{Object: u, Contents: contents, Joins: 3, Leaves: 2, Hosts: replicas, Sick: map[int]bool{}}
	for range replicas {
		m := p.make()
		m.Joined = true
	}
	return p
}

func (p *Pool) template() string {
	s, _, _ := unstructured.NestedString(p.Object.Object, "spec", "template")
	return s
}

func (p *Pool) number(field string) int {
	switch n := p.Object.Object["spec"].(map[string]any)[field].(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

func (p *Pool) make() *SimMachine {
	p.made++
	m := &SimMachine{Name: fmt.Sprintf("%s-%02d", p.Object.GetName(), p.made), Template: p.template(), left: p.Joins}
	p.Machines = append(p.Machines, m)
	return m
}

// Made counts the Machines that were ever made.
func (p *Pool) Made() int { return p.made }

// settle lets Machines and their controller move by one notch.
func (p *Pool) settle() {
	p.hosts()
	p.Machines = slices.DeleteFunc(p.Machines, func(m *SimMachine) bool {
		if m.Deleting && len(m.Hooks) == 0 {
			m.left--
			return m.left <= 0
		}
		if !m.Joined && m.Host != "" && !m.Deleting {
			m.left--
			m.Joined = m.left <= 0
		}
		return false
	})
	p.measure()
	if _, paused := p.Object.GetAnnotations()["cluster.x-k8s.io/paused"]; !paused {
		p.control()
	}
}

// hosts gives hosts to Machines that have none, as long as there are some.
func (p *Pool) hosts() {
	taken := map[string]bool{}
	for _, m := range p.Machines {
		taken[m.Host] = true
	}
	for _, m := range p.Machines {
		for i := 1; i <= p.Hosts && m.Host == ""; i++ {
			if h := fmt.Sprint("h", i); !taken[h] {
				m.Host, taken[h] = h, true
			}
		}
	}
}

// measure keeps the worst that was ever seen.
func (p *Pool) measure() {
	works, leaving := 0, 0
	for _, m := range p.Machines {
		if m.Joined && (!m.Deleting || len(m.Hooks) > 0) {
			works++
		}
		if m.Deleting && len(m.Hooks) == 0 {
			leaving++
		}
	}
	p.WorstDown, p.MostLeaving = max(p.WorstDown, p.number("replicas")-works), max(p.MostLeaving, leaving)
}

func (p *Pool) control() {
	replicas, surge := p.number("replicas"), p.number("maxSurge")
	outdated := slices.IndexFunc(p.Machines, func(m *SimMachine) bool { return m.Template != p.template() })
	for _, m := range p.Machines {
		if m.Deleting || !m.Joined {
			return
		}
	}
	switch {
	case outdated < 0 && len(p.Machines) < replicas, outdated >= 0 && len(p.Machines) < replicas+surge:
		p.make()
	case outdated >= 0:
		p.Machines[outdated].Deleting, p.Machines[outdated].left = true, p.Leaves
	case len(p.Machines) > replicas:
		p.Machines[0].Deleting, p.Machines[0].left = true, p.Leaves
	}
}

// state is what an observer sees.
func (p *Pool) state(c *Cluster, want world.WantPool) world.PoolState {
	replicas := int64(p.number("replicas"))
	out := world.PoolState{Owner: p.Object.DeepCopy(), Counts: world.Counts{Desired: replicas, Current: int64(len(p.Machines)), Known: true}}
	for _, ref := range append([]world.Ref{want.Template}, want.Settings...) {
		var u *unstructured.Unstructured
		if o, found := c.objects[ref]; found && o.doc != nil {
			u = o.doc.DeepCopy()
		}
		if ref == world.RefOf(p.Object) {
			u = p.Object.DeepCopy()
		}
		out.Settings = append(out.Settings, u)
	}
	out.Template, out.Settings = out.Settings[0], out.Settings[1:]
	for i := 1; i <= p.Hosts; i++ {
		h := world.BareHost{Namespace: p.Object.GetNamespace(), Name: fmt.Sprint("h", i), State: "available"}
		for _, m := range p.Machines {
			if m.Host == h.Name {
				h.State, h.Consumer = "provisioned", world.Ref{Kind: "Metal3Machine", Namespace: h.Namespace, Name: m.Name}
			}
		}
		out.Hosts = append(out.Hosts, h)
	}
	for i, m := range p.Machines {
		r := world.RolledMachine{
			Ref: world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Namespace: p.Object.GetNamespace(), Name: m.Name},
			UID: m.Name, Created: c.Clock.Now(), Template: m.Template, Phase: "Running", Hooks: slices.Clone(m.Hooks), Host: m.Host,
		}
		if m.Deleting {
			r.Deleting, r.Phase = c.Clock.Now().Add(-time.Second), "Deleting"
		}
		if m.Joined {
			r.Node, r.NodeReady, r.Contents = "node-"+m.Name, !p.Sick[p.made-len(p.Machines)+i+1], p.Contents[m.Template]
		}
		if m.Template == p.template() {
			out.Counts.UpToDate++
		}
		out.Machines = append(out.Machines, r)
	}
	return out
}

// pool returns the pool of an owner, nil if there is none.
func (c *Cluster) pool(ref world.Ref) *Pool {
	for _, p := range c.Pools {
		if world.RefOf(p.Object) == ref {
			return p
		}
	}
	return nil
}

// patchPool makes a merge patch of an owner, of a Machine's hooks, or of a document; known is false for anything else.
func (c *Cluster) patchPool(ref world.Ref, patch []byte) (known bool, err error) {
	if p := c.pool(ref); p != nil {
		return true, c.merge(ref, p.Object, patch)
	}
	if o, found := c.objects[ref]; found && o.doc != nil && len(c.Pools) > 0 {
		return true, c.merge(ref, o.doc, patch)
	}
	if ref.Kind != "Machine" {
		return false, nil
	}
	var change struct {
		Metadata struct{ Annotations map[string]*string }
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return true, fmt.Errorf("patch %s: %w", ref, err)
	}
	for _, p := range c.Pools {
		for _, m := range p.Machines {
			if m.Name == ref.Name {
				m.hook(c, change.Metadata.Annotations)
			}
		}
	}
	return true, nil
}

func (m *SimMachine) hook(c *Cluster, annotations map[string]*string) {
	for key, value := range annotations {
		name := key[strings.LastIndex(key, "/")+1:]
		has := slices.Contains(m.Hooks, name)
		switch {
		case value != nil && !has:
			m.Hooks = append(m.Hooks, name)
			c.Changes = append(c.Changes, "hold "+m.Name)
		case value == nil && has:
			m.Hooks = slices.DeleteFunc(m.Hooks, func(h string) bool { return h == name })
			c.Changes = append(c.Changes, "let go "+m.Name)
		}
	}
}

// merge changes a document, and notes it if anything changed.
func (c *Cluster) merge(ref world.Ref, u *unstructured.Unstructured, patch []byte) error {
	before, err := u.MarshalJSON()
	if err != nil {
		return fmt.Errorf("patch %s: %w", ref, err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return fmt.Errorf("patch %s: %w", ref, err)
	}
	if jsonpatch.Equal(before, after) {
		return nil
	}
	if err := u.UnmarshalJSON(after); err != nil {
		return fmt.Errorf("patch %s: %w", ref, err)
	}
	c.Changes = append(c.Changes, fmt.Sprintf("patch %s %s", ref, patch))
	return nil
}
