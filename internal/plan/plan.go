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
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/world"
)

// Input is what a plan is made from.
type Input struct {
	// Bundle is the release with everything it consists of.
	Bundle *release.Bundle
	// World holds the sets that Wants asked for.
	World *world.World
	// Earlier are the manifests as they were applied last, by component; a missing one is not known.
	Earlier map[string]*settings.Earlier
	// Kept are the settings that were carried over into the bundle's manifests, by component.
	Kept map[string][]v1alpha1.KeptSetting
	// Last is the plan of the run that was completed last; nil if none was, or if it is lost.
	Last *v1alpha1.PlanSpec
	// Past are ended runs, newest first: they say what was completed last and how long runs take here.
	Past []v1alpha1.Upgrade
	// AllowPrerelease tells that pre-releases are meant.
	AllowPrerelease bool
	// Knowledge are known risks that the operator brings along.
	Knowledge []v1alpha1.KnownRisk
	// NoMigrate tells that stored objects are not to be rewritten or repaired by the run.
	NoMigrate bool
}

// Wants returns what has to be observed for a plan: every object of every component, and what a component has besides.
// With diff it is observed in full, so that differences can be shown.
func Wants(b *release.Bundle, diff bool) []world.Want {
	var out []world.Want
	for _, r := range b.Components {
		w := world.Want{ID: SetID(r.Component.Name), Owned: selector(r.Component), Content: true, Diff: diff}
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

// SetID returns the ID of the set that Wants asks for a component.
func SetID(component string) string { return "plan/" + component }

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
		objects[name], sets[name] = r.Objects, in.World.Sets[SetID(name)]
		spec.Components = append(spec.Components, component(r, in, sets[name]))
	}
	resets, err := Resets(in)
	if err != nil {
		return nil, err
	}
	steps, err := platform.Build(spec.Components, objects)
	if err != nil {
		return nil, err
	}
	spec.Steps = platform.Describe(steps)
	spec.PointOfNoReturn = pointOfNoReturn(spec, objects, sets)
	target := &check.Target{
		Bundle: in.Bundle, Components: spec.Components, PlatformVersion: spec.Base.PlatformVersion, Sets: sets, Settings: resets,
		AllowPrerelease: in.AllowPrerelease, Knowledge: in.Knowledge, NoMigrate: in.NoMigrate,
	}
	if in.Last != nil {
		target.Installed = in.Last.Components
	}
	if !target.Still() {
		spec.SelfHosted = check.SelfHosted(in.World)
	}
	spec.Contracts = check.Contracts(in.World, target)
	spec.Findings = check.Run(check.For(check.Platform), in.World, target)
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
	if run := LastCompleted(past); run != nil {
		return run.Spec.To
	}
	return ""
}

// LastCompleted returns the newest run of the platform that was completed, nil if there is none.
func LastCompleted(past []v1alpha1.Upgrade) *v1alpha1.Upgrade {
	for i := range past {
		if past[i].Spec.Kind != v1alpha1.PlanNodes && completed(&past[i]) {
			return &past[i]
		}
	}
	return nil
}

func completed(run *v1alpha1.Upgrade) bool {
	c := apimeta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded)
	return c != nil && c.Reason == v1alpha1.ReasonCompleted
}

// Resets returns the settings that an upgrade of each component resets.
func Resets(in Input) (map[string][]settings.Change, error) {
	out := map[string][]settings.Change{}
	for _, r := range in.Bundle.Components {
		name := r.Component.Name
		changes, err := settings.Compare(settings.Input{Set: in.World.Sets[SetID(name)], New: r.Objects, Earlier: in.Earlier[name]})
		if err != nil {
			return nil, fmt.Errorf("compare settings of %s: %w", name, err)
		}
		if len(changes) > 0 {
			out[name] = changes
		}
	}
	return out, nil
}

// seal sets the digest over all the rest.
func seal(spec *v1alpha1.PlanSpec) (err error) {
	spec.Digest, err = Digest(spec)
	return err
}

// Digest returns the sha256 over a plan without its digest.
func Digest(spec *v1alpha1.PlanSpec) (string, error) {
	bare := *spec
	bare.Digest = ""
	data, err := json.Marshal(&bare)
	if err != nil {
		return "", fmt.Errorf("encode the plan: %w", err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// perStep is the stated default for the time of a step that nobody has measured here yet.
const perStep = 2 * time.Second

// perSwap is the stated default for the time of a step that rolls a Deployment.
const perSwap = 6 * time.Second
