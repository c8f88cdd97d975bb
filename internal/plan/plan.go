// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what an upgrade will do: which components move, how their controllers are swapped, in which
// steps, and what to expect. It is pure: the same release and world give the same plan, down to its digest.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/world"
)

// Input is what a plan is made from.
type Input struct {
	// Bundle is the release with everything it consists of.
	Bundle *release.Bundle
	// World holds the sets that Wants asked for.
	World *world.World
	// Past are ended runs, newest first: they say what was completed last and how long runs take here.
	Past []v1alpha1.Upgrade
}

// Wants returns what has to be observed for a plan: every object of every component, and what a component has besides.
func Wants(b *release.Bundle) []world.Want {
	var out []world.Want
	for _, r := range b.Components {
		w := world.Want{ID: setID(r.Component.Name), Owned: selector(r.Component), Content: true}
		for _, o := range r.Objects {
			w.Objects = append(w.Objects, world.Wanted{Presence: world.Present, Object: o})
		}
		out = append(out, w)
	}
	return out
}

// Ask returns what a survey for a plan has to look into: what the checks read.
func Ask(b *release.Bundle) world.Ask {
	ask := world.Ask{
		Topics: check.Topics(check.For(check.Platform)), Rights: rights(b), Accounts: accounts(b), Namespaces: namespaces(b),
	}
	for _, d := range b.Release.Spec.Dependents {
		ask.Dependents = append(ask.Dependents, world.AskDependents{APIVersion: d.APIVersion, Kind: d.Kind, FieldPath: d.FieldPath})
	}
	for _, r := range b.Components {
		for _, o := range r.Objects {
			if o.GetKind() == "CustomResourceDefinition" {
				ask.CRDs = append(ask.CRDs, o)
			}
		}
	}
	return ask
}

func setID(component string) string { return "plan/" + component }

// selector returns the label selector of all objects of a component, as clusterctl or Capstan labels them.
func selector(c v1alpha1.Component) string {
	switch {
	case c.Provider != nil:
		return "cluster.x-k8s.io/provider=" + manifestLabel(c.Provider)
	case c.Name == release.CertManager:
		return "clusterctl.cluster.x-k8s.io/core=" + release.CertManager
	}
	return release.LabelComponent + "=" + c.Name
}

func manifestLabel(p *v1alpha1.ProviderIdentity) string {
	return clusterctlv1.ManifestLabel(p.Name, clusterctlv1.ProviderType(p.Type))
}

// Compute makes the plan.
func Compute(in Input) (*v1alpha1.PlanSpec, error) {
	spec := &v1alpha1.PlanSpec{
		Kind: v1alpha1.PlanPlatform,
		Release: v1alpha1.ReleaseReference{
			Name: in.Bundle.Release.Name, Version: in.Bundle.Release.Spec.Version, Digest: in.Bundle.Digest,
		},
		Base: base(in),
	}
	objects, sets := platform.Objects{}, map[string]world.Set{}
	for _, r := range in.Bundle.Components {
		name := r.Component.Name
		objects[name], sets[name] = r.Objects, in.World.Sets[setID(name)]
		spec.Components = append(spec.Components, component(r, in, sets[name]))
	}
	steps, err := platform.Build(spec.Components, objects)
	if err != nil {
		return nil, err
	}
	spec.Steps = platform.Describe(steps)
	spec.PointOfNoReturn = pointOfNoReturn(spec)
	spec.Findings = check.Run(check.For(check.Platform), in.World, &check.Target{
		Bundle: in.Bundle, Components: spec.Components, PlatformVersion: spec.Base.PlatformVersion, Sets: sets,
	})
	spec.Forecast = forecast(spec, in.Past)
	return spec, seal(spec)
}

func base(in Input) v1alpha1.Base {
	b := v1alpha1.Base{
		ClusterUID: in.World.Management.UID, KubernetesVersion: in.World.Management.KubernetesVersion,
		Clusters: int32(len(in.World.Clusters)), PlatformVersion: Completed(in.Past),
	}
	for i := range in.World.Clusters {
		b.Machines += int32(len(in.World.Clusters[i].Machines))
	}
	return b
}

// Completed returns the version that the newest completed run reached, or "".
func Completed(past []v1alpha1.Upgrade) string {
	for _, run := range past {
		c := apimeta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded)
		if c != nil && c.Reason == v1alpha1.ReasonCompleted {
			return run.Spec.To
		}
	}
	return ""
}

// NothingToDo tells that every component is at its target.
func NothingToDo(spec *v1alpha1.PlanSpec) bool { return len(spec.Steps) == 0 }

// pointOfNoReturn returns the first step after which objects may be stored in versions that the earlier release can't
// read.
func pointOfNoReturn(spec *v1alpha1.PlanSpec) string {
	for _, c := range spec.Components {
		moves := slices.ContainsFunc(c.TwoPhase, func(t v1alpha1.TwoPhaseCRD) bool { return t.Storage != "" })
		if moves && c.Action != v1alpha1.ActionNone {
			return "storage/" + c.Name + "/" + c.To
		}
	}
	return ""
}

// seal sets the digest over all the rest.
func seal(spec *v1alpha1.PlanSpec) error {
	spec.Digest = ""
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	sum := sha256.Sum256(data)
	spec.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

// perStep is the stated default for the time of a step that nobody has measured here yet.
const perStep = 2 * time.Second

// perSwap is the stated default for the time of a step that rolls a Deployment.
const perSwap = 6 * time.Second
