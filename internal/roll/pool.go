// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// hostDemand is what a template asks of hosts.
func hostDemand(template *unstructured.Unstructured, image *v1alpha1.NodeImage, reuse string) (Demand, error) {
	d := Demand{Namespace: template.GetNamespace(), Selector: labels.Everything(), Reuse: reuse, Image: image}
	content, found, err := unstructured.NestedMap(template.Object, "spec", "template", "spec", "hostSelector")
	if err != nil || !found {
		return d, err
	}
	// Metal3 writes operators in lower case as label selectors of the API machinery do inside.
	if list, ok := content["matchExpressions"].([]any); ok {
		for _, e := range list {
			if m, ok := e.(map[string]any); ok {
				m["operator"] = operator(fmt.Sprint(m["operator"]))
			}
		}
	}
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s); err != nil {
		return d, fmt.Errorf("read spec.template.spec.hostSelector: %w", err)
	}
	if d.Selector, err = metav1.LabelSelectorAsSelector(&s); err != nil {
		return d, fmt.Errorf("read spec.template.spec.hostSelector: %w", err)
	}
	return d, nil
}

func operator(s string) string {
	for _, o := range []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	} {
		if strings.EqualFold(s, string(o)) {
			return string(o)
		}
	}
	switch s {
	case "=", "==":
		return string(metav1.LabelSelectorOpIn)
	case "!=":
		return string(metav1.LabelSelectorOpNotIn)
	case "!":
		return string(metav1.LabelSelectorOpDoesNotExist)
	}
	return s
}

// hosts finds out of every pool on bare metal which hosts it has and could get. Free hosts of a namespace are one stock.
func (p *planner) hosts(clusters []world.PoolCluster) {
	all := hostList(clusters)
	stocks := map[string]*stock{}
	for _, c := range p.candidates {
		if c.fields.Hosts != HostsBareMetal {
			continue
		}
		c.hosts = all
		demand, err := hostDemand(c.Template, p.image, ReuseValue(c.PoolOwner))
		if err != nil {
			p.block(IDTemplate, fmt.Sprintf("%s of cluster %s: which hosts it may have can't be read: %s", c.Ref, c.cluster.Key, err),
				"mend spec.template.spec.hostSelector of its template", c.Ref, world.RefOf(c.Template))
			continue
		}
		c.demand = demand
		if stocks[c.Ref.Namespace] == nil {
			stocks[c.Ref.Namespace] = newStock(len(all), nil)
		}
		c.stock = stocks[c.Ref.Namespace]
		p.verdicts(c)
		c.reach = slices.Clone(c.ever)
		c.reach.join(c.held)
	}
}

// verdicts judges every host for one pool.
func (p *planner) verdicts(c *candidate) {
	c.ever, c.held = newHostSet(len(c.hosts)), newHostSet(len(c.hosts))
	mine := map[string]bool{}
	for _, m := range c.Machines {
		if m.Host != "" {
			mine[m.Host] = true
		}
	}
	for i, h := range c.hosts {
		if h.Namespace != c.Ref.Namespace {
			continue
		}
		if mine[h.Name] {
			c.held.add(i)
		}
		if c.demand.never(h) != "" {
			continue
		}
		c.ever.add(i)
		if c.demand.now(h) {
			c.stock.have(i)
		}
	}
	p.out.Hosts = append(p.out.Hosts, PoolHosts{Cluster: c.cluster.Key, Owner: c.Ref, demand: c.demand, hosts: c.hosts})
}

// hostList returns the hosts of all clusters, each once, sorted.
func hostList(clusters []world.PoolCluster) []*world.BareHost {
	type key struct{ namespace, name string }
	seen := map[key]bool{}
	var out []*world.BareHost
	for i := range clusters {
		for j := range clusters[i].Hosts {
			h := &clusters[i].Hosts[j]
			if k := (key{h.Namespace, h.Name}); !seen[k] {
				seen[k], out = true, append(out, h)
			}
		}
	}
	slices.SortFunc(out, func(a, b *world.BareHost) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// ReuseValue is the value of the label by which Metal3 keeps hosts for a pool.
func ReuseValue(pool *world.PoolOwner) string {
	if pool.ControlPlane {
		return "cp-" + pool.Ref.Name
	}
	return "md-" + pool.Ref.Name
}
