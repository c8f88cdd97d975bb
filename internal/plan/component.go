// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// component decides what happens to one component.
func component(r *release.Rendered, in Input, set world.Set) v1alpha1.PlannedComponent {
	c := v1alpha1.PlannedComponent{
		Name: r.Component.Name, Type: r.Component.Type, Provider: r.Component.Provider,
		From: Installed(r.Component, in.World), To: r.Component.Version, Artifact: r.Digest,
		Needs: needs(r.Component, in.Bundle), Strategy: v1alpha1.StrategyRolling,
		Objects: int32(len(r.Objects)), Kept: in.Kept[r.Component.Name],
		Kubernetes: r.Component.Kubernetes,
	}
	if c.Kubernetes == nil {
		c.Kubernetes = in.Bundle.Release.Spec.Kubernetes
	}
	content, all := changes(set, c.Type)
	c.Prune = prunable(set.Leftovers, in.Bundle, otherNamespaces(r.Component, in.World))
	c.Action = action(c, content+len(c.Prune))
	if c.Action == v1alpha1.ActionNone {
		c.Prune = nil
		return c
	}
	c.Changes = int32(all)
	c.Migrate = migrations(r, in)
	if c.Action != v1alpha1.ActionInstall {
		hazards(&c, r, set)
	}
	return c
}

// needs returns what has to come before a component.
func needs(c v1alpha1.Component, b *release.Bundle) []string {
	if all, ok := b.Needs[c.Name]; ok {
		return slices.Clone(all)
	}
	return slices.Clone(c.Needs)
}

// Installed returns the version that is recorded for a component, or "".
func Installed(c v1alpha1.Component, w *world.World) string {
	if c.Provider != nil {
		for _, p := range w.Management.Providers {
			if p.Name == c.Provider.Name && p.Type == c.Provider.Type && p.Namespace == c.Provider.Namespace {
				return p.Version
			}
		}
		return ""
	}
	for _, m := range w.Management.Manifests {
		if m.Name == c.Name {
			return m.Version
		}
	}
	return recordedOn(c, w.Sets[SetID(c.Name)])
}

// recordedOn returns the lowest version that a manifest's own objects carry: one that has neither Deployment nor CRD nor
// Namespace is not found by these.
func recordedOn(c v1alpha1.Component, set world.Set) string {
	lowest := ""
	for _, o := range set.Objects {
		if o.Live == nil || o.Live.GetLabels()[release.LabelComponent] != c.Name {
			continue
		}
		v := o.Live.GetAnnotations()[release.AnnotationVersion]
		if order, err := version.Compare(v, lowest); err == nil && order < 0 || lowest == "" {
			lowest = v
		}
	}
	return lowest
}

// changes counts the objects whose content differs, and all that differ at all.
//
// Labels and annotations alone are no reason to touch what another tool installed. In a plain manifest they are the
// record of its version, though: where some objects have them as the release does and others don't, the latter were left
// behind.
func changes(set world.Set, t v1alpha1.ComponentType) (content, all int) {
	recorded := t == v1alpha1.ComponentManifest && slices.ContainsFunc(set.Objects, func(o world.Object) bool { return o.InSync })
	for _, o := range set.Objects {
		if o.InSync {
			continue
		}
		all++
		if !o.Cosmetic || recorded && o.Change != "" {
			content++
		}
	}
	return content, all
}

// action compares what is recorded with what is there. A component whose record says the target although its objects
// do not was left half-done or changed by hand: it is repaired, not believed.
func action(c v1alpha1.PlannedComponent, content int) v1alpha1.Action {
	switch {
	case c.From == "":
		return v1alpha1.ActionInstall
	case c.From != c.To:
		return v1alpha1.ActionUpgrade
	case content > 0:
		return v1alpha1.ActionRepair
	}
	return v1alpha1.ActionNone
}

// kept are kinds that are never pruned: deleting them would delete what people own in them, or they are the inventory.
func kept(kind string) bool {
	switch kind {
	case "CustomResourceDefinition", "Namespace", "Provider", "PersistentVolumeClaim":
		return true
	}
	return false
}

// prunable leaves out what another component of the release has: it has moved there, and still carries the label of the
// component that had it. It leaves out as well what is in the namespace of another instance of the same provider, which
// carries the same label.
func prunable(leftovers []world.Ref, b *release.Bundle, others []string) []v1alpha1.ObjectReference {
	var out []v1alpha1.ObjectReference
	for _, r := range leftovers {
		if !kept(r.Kind) && !wanted(r, b) && (r.Namespace == "" || !slices.Contains(others, r.Namespace)) {
			out = append(out, v1alpha1.ObjectReference(r))
		}
	}
	return out
}

func wanted(r world.Ref, b *release.Bundle) bool {
	return slices.ContainsFunc(b.Components, func(c *release.Rendered) bool {
		return slices.ContainsFunc(c.Objects, func(o *unstructured.Unstructured) bool { return r.Same(world.RefOf(o)) })
	})
}

// forecast says how long the run will take, by what it took here before or by a stated default.
func forecast(spec *v1alpha1.PlanSpec, past []v1alpha1.Upgrade) v1alpha1.Forecast {
	f := v1alpha1.Forecast{Basis: fmt.Sprintf("default: %s a step, %s a step that rolls a Deployment", perStep, perSwap)}
	for _, s := range spec.Steps {
		if hasVerb(s.ID, "swap") {
			f.Duration.Duration += perSwap
			continue
		}
		f.Duration.Duration += perStep
	}
	if d, from := measured(past, len(spec.Steps)); d > 0 {
		f.Duration.Duration, f.Basis = d, "history: "+from
	}
	for _, c := range spec.Components {
		if c.Action != v1alpha1.ActionNone && c.Strategy == v1alpha1.StrategyStopThenStart {
			f.Gaps = append(f.Gaps, fmt.Sprintf("%s: its old controllers are stopped before the new ones start", c.Name))
		}
	}
	return f
}

// otherNamespaces returns where other instances of a provider are.
func otherNamespaces(c v1alpha1.Component, w *world.World) []string {
	var out []string
	for _, p := range w.Management.Providers {
		if c.Provider != nil && p.Name == c.Provider.Name && p.Type == c.Provider.Type && p.Namespace != c.Provider.Namespace {
			out = append(out, p.Namespace)
		}
	}
	return out
}
