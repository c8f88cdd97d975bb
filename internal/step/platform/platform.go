// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package platform holds the steps that move one component of the management cluster from one version to the next.
// It decides from the world and writes through the actuator it is handed; it has no client of its own.
//
// A component passes through these steps, each left out where it has nothing to do:
//
//	stop ──► crds ──► swap ──► webhooks ──► storage ──► prune ──► record
//
//	stop      old controllers go first, only where the plan says StopThenStart
//	crds      new CRDs; where the storage version or the webhook's CA moves, the old one stays for now
//	swap      everything else; Kubernetes rolls the Deployments while the old controllers run
//	webhooks  admission configurations, once the new Pods can answer them
//	storage   CRDs in their final form, once the new conversion webhook answers
//	prune     what the new version no longer has, once no old Pod is left that could miss it
//	record    the version in the clusterctl inventory: last, and only after all the above was seen done
package platform

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
)

// Objects are the rendered objects of each component by its name.
type Objects map[string][]*unstructured.Unstructured

// Build returns the steps of a platform plan, in an order that respects all needs.
func Build(components []v1alpha1.PlannedComponent, objects Objects) ([]step.Step, error) {
	last := map[string]string{}
	var steps []step.Step
	for _, c := range components {
		if c.Action == v1alpha1.ActionNone {
			continue
		}
		objs, ok := objects[c.Name]
		if !ok {
			return nil, fmt.Errorf("build steps of %s: its manifests are missing", c.Name)
		}
		var needs []string
		for _, n := range c.Needs {
			if id, moved := last[n]; moved {
				needs = append(needs, id)
			}
		}
		own := chain(c, objs, needs)
		if len(own) == 0 {
			continue
		}
		last[c.Name] = own[len(own)-1].ID()
		steps = append(steps, own...)
	}
	return steps, nil
}

// Describe returns the plan's own list of the steps.
func Describe(steps []step.Step) []v1alpha1.PlannedStep {
	out := make([]v1alpha1.PlannedStep, 0, len(steps))
	for _, s := range steps {
		out = append(out, v1alpha1.PlannedStep{ID: s.ID(), Summary: s.Summary(), Component: s.Component(), Needs: s.Needs()})
	}
	return out
}

// chain returns the steps of one component, each needing the one before it.
func chain(c v1alpha1.PlannedComponent, objs []*unstructured.Unstructured, needs []string) []step.Step {
	parts := split(objs)
	var steps []step.Step
	add := func(verb, summary string, build func(base) step.Step) {
		b := base{id: verb + "/" + c.Name + "/" + c.To, component: c.Name, summary: summary, needs: slices.Clone(needs)}
		steps = append(steps, build(b))
		needs = []string{b.id}
	}
	if removed := removedDeployments(c.Prune); c.Strategy == v1alpha1.StrategyStopThenStart && len(parts.deployments)+len(removed) > 0 {
		add("stop", "Stop the old controllers of "+c.Name, func(b base) step.Step {
			return &stop{base: b, deployments: parts.deployments, removed: removed}
		})
	}
	if len(parts.crds) > 0 {
		add("crds", fmt.Sprintf("Apply %d CRDs of %s %s", len(parts.crds), c.Name, c.To), func(b base) step.Step {
			return newCRDs(b, parts.crds, c.TwoPhase)
		})
	}
	if len(parts.rest) > 0 {
		add("swap", fmt.Sprintf("Swap %s to %s", c.Name, c.To), func(b base) step.Step {
			return &objectSet{base: b, objects: parts.rest, replace: c.Replace}
		})
	}
	if len(parts.webhooks) > 0 || hasConversion(parts.crds) {
		add("webhooks", fmt.Sprintf("Switch the webhooks of %s %s", c.Name, c.To), func(b base) step.Step {
			return &objectSet{base: b, objects: parts.webhooks, also: withConversion(parts.crds, c.TwoPhase), replace: c.Replace, probe: true}
		})
	}
	if len(c.TwoPhase) > 0 {
		add("storage", fmt.Sprintf("Give %d CRDs of %s their final form", len(c.TwoPhase), c.Name), func(b base) step.Step {
			return &objectSet{base: b, objects: named(parts.crds, c.TwoPhase)}
		})
	}
	if len(c.Prune) > 0 {
		add("prune", fmt.Sprintf("Remove %d objects that %s %s no longer has", len(c.Prune), c.Name, c.To), func(b base) step.Step {
			return &prune{base: b, refs: c.Prune}
		})
	}
	if c.Provider != nil {
		add("record", fmt.Sprintf("Record %s %s in the inventory", c.Name, c.To), func(b base) step.Step {
			return &objectSet{base: b, objects: []*unstructured.Unstructured{InventoryEntry(*c.Provider, c.To)}}
		})
	}
	return steps
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
