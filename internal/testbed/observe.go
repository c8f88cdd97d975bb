// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// Observe reports the wanted sets, and lets the simulated controllers move by one notch.
func (p *Process) Observe(_ context.Context, wants []world.Want) (*world.World, error) {
	if err := p.alive(); err != nil {
		return nil, err
	}
	p.c.settle()
	w := &world.World{At: p.c.Clock.Now(), FleetAt: p.c.Clock.Now(), Clusters: slices.Clone(p.c.Fleet), Sets: map[string]world.Set{}}
	w.Management.ClusterAPIVersion = "cluster.x-k8s.io/v1beta2"
	for _, want := range wants {
		var set world.Set
		for _, o := range want.Objects {
			set.Objects = append(set.Objects, p.c.look(o))
		}
		for _, m := range want.Migrate {
			set.Migrating = append(set.Migrating, p.goThrough(m))
		}
		for _, pool := range want.Pools {
			var state world.PoolState
			if sim := p.c.pool(pool.Owner); sim != nil {
				state = sim.state(p.c, pool)
			} else {
				state.Settings = make([]*unstructured.Unstructured, len(pool.Settings))
			}
			set.Pools = append(set.Pools, state)
		}
		w.Sets[want.ID] = set
	}
	return w, nil
}

// settle moves rollouts and terminations on.
func (c *Cluster) settle() {
	for _, p := range c.Pools {
		p.settle()
	}
	for ref, o := range c.objects {
		if o.stopped && o.pods > 0 {
			o.pods--
		}
		if _, broken := c.Broken[ref.Name]; o.rolling > 0 && (!broken || o.rolling > 1) {
			o.rolling--
		}
	}
}

func (c *Cluster) look(want world.Wanted) world.Object {
	ref := world.RefOf(want.Object)
	out := world.Object{Ref: ref, Presence: want.Presence}
	o, found := c.objects[ref]
	if !found {
		return out
	}
	switch want.Presence {
	case world.Absent:
		out.Found = true
	case world.Quiet:
		out.Found, out.InSync = o.pods > 0, o.stopped
	case world.Present:
		out.Found = true
		out.InSync = o.content == content(want.Object) && !o.stopped
		if !out.InSync {
			out.Drift = "spec"
			out.Immutable = c.Frozen[ref.Kind+"/"+ref.Name]
		}
		if ref.Kind == "Deployment" {
			out.Health = c.health(ref, o)
		}
	}
	return out
}

func (c *Cluster) health(ref world.Ref, o *object) *world.Health {
	h := &world.Health{OK: o.rolling == 0, Progress: int64(o.rolling), Message: "rolling"}
	if cause, broken := c.Broken[ref.Name]; broken && !h.OK {
		if cause.Object.Kind == "" {
			cause.Object = ref
		}
		h.Causes = []world.Cause{cause}
	}
	return h
}
