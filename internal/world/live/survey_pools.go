// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// poolsTopic reads what a roll of the chosen clusters' nodes depends on. Only their namespaces are looked into, after it is
// known which they are.
func poolsTopic() topic {
	return topic{name: world.TopicPools, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		chosen := map[string]poolCluster{}
		err := s.visitKind(schema.GroupKind{Group: capiGroup, Kind: "Cluster"}, func(u *unstructured.Unstructured) {
			n := world.NodeCluster{Ref: world.RefOf(u), Labels: u.GetLabels()}
			if !s.ask.Nodes.Includes(&n) {
				return
			}
			c := poolCluster{PoolCluster: world.PoolCluster{Key: n.Key(), Ref: n.Ref}}
			c.controlPlane, _ = controlPlaneOf(u)
			if t := topologyOf(u); t != nil {
				c.Class = t.Class
			}
			chosen[c.Key] = c
		})
		return func(ctx context.Context) error { return s.pools(ctx, chosen) }, err
	}}
}

// poolCluster is a cluster with what it names as its control plane.
type poolCluster struct {
	world.PoolCluster

	controlPlane objectKey
}

// pools reads the chosen clusters.
func (s *surveyor) pools(ctx context.Context, chosen map[string]poolCluster) error {
	keys := slices.Sorted(maps.Keys(chosen))
	wants := make([]world.WantPool, 0, len(keys))
	for _, key := range keys {
		wants = append(wants, world.WantPool{Cluster: key})
	}
	p := newPoolReader(s.round, wants)
	out := &world.PoolSurvey{Clusters: make([]world.PoolCluster, len(keys))}
	err := forEach(len(keys), s.parallel, func(i int) error {
		c := chosen[keys[i]]
		err := p.survey(ctx, &c)
		out.Clusters[i] = c.PoolCluster
		return err
	})
	if err != nil {
		return err
	}
	s.out.Pools = out
	return nil
}

// survey fills in one cluster.
func (p *poolReader) survey(ctx context.Context, c *poolCluster) error {
	hosts := p.hostsOf(ctx, c.Ref.Namespace)
	if hosts.err != nil {
		return hosts.err
	}
	found := p.all(ctx, metalAPIVersion, "HardwareData", c.Ref.Namespace)
	if found.err != nil {
		return found.err
	}
	c.Hosts = equipped(hosts.bare, found.byName)
	owners, err := p.ownersOf(ctx, c)
	if err != nil {
		return err
	}
	for _, u := range owners {
		o := poolOwner(u)
		if o.Template, err = p.templateOf(ctx, u); err != nil {
			return err
		}
		if o.Machines, err = p.machinesOf(ctx, c.Key, o.Ref, u, hosts, nil); err != nil {
			return err
		}
		c.Owners = append(c.Owners, o)
	}
	c.Checks, err = p.checksOf(ctx, c.Key, c.Ref.Namespace, owners)
	return err
}

// all lists a kind in a namespace, once. Without a version it is the preferred one.
func (p *poolReader) all(ctx context.Context, apiVersion, kind, namespace string) listAnswer {
	ref := world.Ref{APIVersion: apiVersion, Kind: kind, Namespace: namespace}
	return p.singles.get(singleKey(ref), func() listAnswer { return p.listed(ctx, ref, metav1.ListOptions{}) })
}

// equipped fills in what newer versions of Metal3 keep of an inspection in an object of its own.
func equipped(hosts []world.BareHost, data map[string]*unstructured.Unstructured) []world.BareHost {
	out := slices.Clone(hosts)
	for i := range out {
		h := &out[i]
		if u := data[h.Name]; u != nil && h.MemoryMiB == 0 && len(h.Disks) == 0 {
			if hardware, found, _ := unstructured.NestedMap(u.Object, "spec", "hardware"); found {
				inspected(h, hardware)
			}
		}
	}
	return out
}

// ownersOf returns a cluster's control plane, if it has one, and its MachineDeployments.
func (p *poolReader) ownersOf(ctx context.Context, c *poolCluster) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	if key := c.controlPlane; key.name != "" {
		a := p.all(ctx, key.kind.Group+"/", key.kind.Kind, key.namespace)
		if a.err != nil {
			return nil, a.err
		}
		if u := a.byName[key.name]; u != nil {
			out = append(out, u)
		}
	}
	a := p.all(ctx, capiGroup+"/", "MachineDeployment", c.Ref.Namespace)
	for _, u := range a.sorted() {
		if ownClusterKey(u) == c.Key {
			out = append(out, u)
		}
	}
	return out, a.err
}

// templateOf reads the infrastructure machine template that an owner names; nil if it is not there.
func (p *poolReader) templateOf(ctx context.Context, owner *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key, named := refAt(owner, templatePath(owner)...)
	if !named {
		return nil, nil
	}
	a := p.all(ctx, key.kind.Group+"/", key.kind.Kind, key.namespace)
	u := a.byName[key.name]
	if a.err != nil || u == nil {
		return nil, a.err
	}
	u = u.DeepCopy() // others may name it, too
	u.SetManagedFields(nil)
	return u, nil
}

// checksOf returns the MachineHealthChecks of a cluster that select Machines of its owners, those to come included.
func (p *poolReader) checksOf(ctx context.Context, cluster, namespace string, owners []*unstructured.Unstructured) ([]world.HealthCheck, error) {
	a := p.all(ctx, capiGroup+"/", "MachineHealthCheck", namespace)
	machines, err := p.allMachines(ctx, cluster)
	if a.err != nil || err != nil {
		return nil, first([]error{a.err, err})
	}
	var out []world.HealthCheck
	for _, u := range a.sorted() {
		if ownClusterKey(u) != cluster {
			continue
		}
		selector, err := checkSelector(u)
		if err != nil {
			return nil, fmt.Errorf("read the selector of %s: %w", world.RefOf(u), err)
		}
		c := healthCheck(u)
		for _, o := range owners {
			if selects(selector, cluster, o, machines) {
				c.Pools = append(c.Pools, o.GetKind()+" "+o.GetName())
			}
		}
		slices.Sort(c.Pools)
		if len(c.Pools) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}
