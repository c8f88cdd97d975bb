// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diff"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/world"
)

// differences returns what the run of a plan would change, in the order of its components. The world was observed in full.
func (s *Session) differences(ctx context.Context, spec *v1alpha1.PlanSpec, in plan.Input) ([]diff.Entry, error) {
	rest, err := s.observer.Observe(ctx, restOf(spec))
	if err != nil {
		return nil, fmt.Errorf("observe what would be removed and recorded: %w", err)
	}
	var out []diff.Entry
	for i, c := range spec.Components {
		if c.Action == v1alpha1.ActionNone {
			continue
		}
		r := in.Bundle.Components[i]
		found, err := differ(c, in.World.Sets[plan.SetID(c.Name)], r.Objects)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		wants := restOfComponent(c)
		wanted := make([]*unstructured.Unstructured, len(wants.Objects))
		for j, w := range wants.Objects {
			if w.Presence == world.Present {
				wanted[j] = w.Object
			}
		}
		if found, err = differ(c, rest.Sets[wants.ID], wanted); err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// restOf asks for what a run changes beside the objects of the release.
func restOf(spec *v1alpha1.PlanSpec) []world.Want {
	var out []world.Want
	for _, c := range spec.Components {
		if c.Action != v1alpha1.ActionNone {
			out = append(out, restOfComponent(c))
		}
	}
	return out
}

// restOfComponent asks for what is pruned, and for the entry of the inventory.
func restOfComponent(c v1alpha1.PlannedComponent) world.Want {
	w := world.Want{ID: "diff/" + c.Name, Diff: true}
	for _, r := range c.Prune {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(r.APIVersion)
		u.SetKind(r.Kind)
		u.SetNamespace(r.Namespace)
		u.SetName(r.Name)
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Absent, Object: u})
	}
	if c.Provider != nil {
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Present, Object: platform.InventoryEntry(*c.Provider, c.To)})
	}
	return w
}

// differ compares observed objects with what is wanted of them; nil is wanted of one that is to go.
func differ(c v1alpha1.PlannedComponent, set world.Set, wanted []*unstructured.Unstructured) ([]diff.Entry, error) {
	var out []diff.Entry
	for i, o := range set.Objects {
		if i >= len(wanted) || o.InSync || o.Presence == world.Absent && !o.Found {
			continue
		}
		e := diff.Entry{Component: c.Name, Object: o.Ref, Kind: diff.Change}
		after := wanted[i]
		if o.Result != nil {
			after = o.Result
		}
		switch {
		case wanted[i] == nil:
			e.Kind, after = diff.Remove, nil
		case !o.Found:
			e.Kind = diff.Add
		case slices.Contains(c.Replace, v1alpha1.ObjectReference(o.Ref)):
			e.Kind = diff.Replace
		}
		var err error
		if e.Text, err = diff.Objects(name(o.Ref), o.Live, after); err != nil {
			return nil, err
		}
		if e.Text != "" {
			out = append(out, e)
		}
	}
	return out, nil
}

// name is an object's name as a path, for the head of a diff.
func name(r world.Ref) string {
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Namespace + "/" + r.Kind + "/" + r.Name
}
