// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package platform holds the steps that move one component of the management cluster from one version to the next.
// It decides from the world and writes through the actuator it is handed; it has no client of its own.
//
// A component passes through these steps, each left out where it has nothing to do:
//
//	migrate ──► crds ──► stop ──► swap ──► webhooks ──► storage ──┬─► prune ──► lead ──► record
//	                                                              └─► (components that need this one)
//
//	migrate   stored objects, so that the new CRDs can do without versions that the old ones have
//	crds      new CRDs, without waiting for other components: old controllers go on with them; where the storage version
//	          or the webhook's CA moves, the old one stays for now
//	stop      old controllers go first, only where the plan says StopThenStart
//	swap      everything else; Kubernetes rolls the Deployments while the old controllers run
//	webhooks  admission configurations, once the new Pods can answer them
//	storage   CRDs in their final form, once the new conversion webhook answers
//	prune     what the new version no longer has, once no old Pod is left that could miss it
//	lead      a new Pod leads; the lease of one that is gone is handed over
//	record    the version in the clusterctl inventory: last, and only after all the above was seen done
package platform

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step"
)

// Objects are the rendered objects of each component by its name.
type Objects map[string][]*unstructured.Unstructured

// Build returns the steps of a platform plan, in an order that respects all needs.
func Build(components []v1alpha1.PlannedComponent, objects Objects) ([]step.Step, error) {
	// serving are the steps after which each component can be relied on. One that does not move can be relied on when what
	// it needs can be.
	serving := map[string][]string{}
	var steps []step.Step
	for _, c := range components {
		var needs []string
		for _, n := range c.Needs {
			needs = appendNew(needs, serving[n]...)
		}
		if serving[c.Name] = needs; c.Action == v1alpha1.ActionNone {
			continue
		}
		objs, ok := objects[c.Name]
		if !ok {
			return nil, fmt.Errorf("build steps of %s: its manifests are missing", c.Name)
		}
		ch := &chain{component: c, needs: needs}
		ch.build(split(objs))
		if len(ch.steps) == 0 {
			continue
		}
		serving[c.Name] = []string{ch.serving}
		steps = append(steps, ch.steps...)
	}
	return steps, nil
}

func appendNew(list []string, more ...string) []string {
	for _, m := range more {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// Describe returns the plan's own list of the steps.
func Describe(steps []step.Step) []v1alpha1.PlannedStep {
	out := make([]v1alpha1.PlannedStep, 0, len(steps))
	for _, s := range steps {
		out = append(out, v1alpha1.PlannedStep{ID: s.ID(), Summary: s.Summary(), Component: s.Component(), Needs: s.Needs()})
	}
	return out
}

// chain is the steps of one component, each needing the one before it.
type chain struct {
	component v1alpha1.PlannedComponent
	// needs are what the next step needs.
	needs []string
	steps []step.Step
	// serving is the step after which the component can be relied on.
	serving string
}

func (ch *chain) add(verb, summary string, build func(base) step.Step) {
	b := base{id: verb + "/" + ch.component.Name + "/" + ch.component.To, component: ch.component.Name, summary: summary, needs: slices.Clone(ch.needs)}
	ch.steps = append(ch.steps, build(b))
	ch.needs = []string{b.id}
	ch.serving = b.id
}

func (ch *chain) build(p parts) {
	ch.definitions(p)
	ch.controllers(p)
	serving := ch.serving
	ch.closing(p)
	if serving != "" {
		ch.serving = serving
	}
}

// definitions apply CRDs before anything that the component needs has moved.
func (ch *chain) definitions(p parts) {
	c := ch.component
	if len(p.crds)+len(c.Migrate) == 0 {
		return
	}
	needs := ch.needs
	ch.needs = nil
	if len(c.Migrate) > 0 {
		ch.add("migrate", migrateSummary(c), func(b base) step.Step { return &migrate{base: b, resources: c.Migrate} })
	}
	if len(p.crds) > 0 {
		ch.add("crds", fmt.Sprintf("Apply %s of %s %s", phrase.Count(len(p.crds), "CRD"), c.Name, c.To), func(b base) step.Step {
			return newCRDs(b, p.crds, c.TwoPhase)
		})
	}
	ch.needs = append(ch.needs, needs...)
}

// controllers swap what runs and what calls it.
func (ch *chain) controllers(p parts) {
	c := ch.component
	if removed := removedDeployments(c.Prune); c.Strategy == v1alpha1.StrategyStopThenStart && len(p.deployments)+len(removed) > 0 {
		ch.add("stop", "Stop the old controllers of "+c.Name, func(b base) step.Step {
			return &stop{base: b, deployments: p.deployments, removed: removed}
		})
	}
	if len(p.rest) > 0 {
		ch.add("swap", fmt.Sprintf("Swap %s to %s", c.Name, c.To), func(b base) step.Step {
			return &objectSet{base: b, objects: p.rest, replace: c.Replace}
		})
	}
	if len(p.webhooks) > 0 || hasConversion(p.crds) {
		ch.add("webhooks", fmt.Sprintf("Switch the webhooks of %s %s", c.Name, c.To), func(b base) step.Step {
			return &objectSet{base: b, objects: p.webhooks, also: withConversion(p.crds, c.TwoPhase), replace: c.Replace, probe: true}
		})
	}
	if len(c.TwoPhase) > 0 {
		ch.add("storage", fmt.Sprintf("Give %s of %s their final form", phrase.Count(len(c.TwoPhase), "CRD"), c.Name), func(b base) step.Step {
			return &objectSet{base: b, objects: named(p.crds, c.TwoPhase)}
		})
	}
}

// closing makes sure that nothing of the old version is left before the new one is recorded.
func (ch *chain) closing(p parts) {
	c := ch.component
	if len(c.Prune) > 0 {
		ch.add("prune", fmt.Sprintf("Remove %s that %s %s no longer has", phrase.Count(len(c.Prune), "object"), c.Name, c.To), func(b base) step.Step {
			return &prune{base: b, refs: c.Prune}
		})
	}
	if len(p.deployments) > 0 {
		ch.add("lead", "See a new controller of "+c.Name+" lead", func(b base) step.Step {
			return &lead{base: b, deployments: p.deployments}
		})
	}
	if c.Provider != nil {
		ch.add("record", fmt.Sprintf("Record %s %s in the inventory", c.Name, c.To), func(b base) step.Step {
			return &objectSet{base: b, objects: []*unstructured.Unstructured{InventoryEntry(*c.Provider, c.To)}}
		})
	}
}

// base is what all steps of this package have in common.
type base struct {
	id, component, summary string
	needs                  []string
}

// ID returns the step's ID.
func (b base) ID() string { return b.id }

// Component returns the component the step belongs to.
func (b base) Component() string { return b.component }

// Summary returns the step's one line.
func (b base) Summary() string { return b.summary }

// Needs returns the IDs of the steps that come first.
func (b base) Needs() []string { return b.needs }
