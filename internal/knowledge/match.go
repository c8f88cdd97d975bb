// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package knowledge

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
)

// Facts are the versions that something is, or will be, made of.
type Facts struct {
	// Components are what runs in the management cluster.
	Components []Component
	// Management is the management cluster's Kubernetes version.
	Management string
	// Clusters are the workload clusters.
	Clusters []Cluster
}

// Component is one component with its versions.
type Component struct {
	// Names are all that it goes by: its name in the release, clusterctl's label.
	Names []string
	// Version is the version it has, From the one it had; they are the same where it does not move, and From is empty where
	// it is new.
	Version, From string
}

// Cluster is one workload cluster with its Kubernetes versions.
type Cluster struct {
	// Key is namespace/name.
	Key string
	// Version is the version it has, From the one it had; they are the same where it does not move.
	Version, From string
	// ControlPlane is the kind of its control plane object.
	ControlPlane string
}

// Risk is a known risk that stands.
type Risk struct {
	// Known is what is known.
	Known v1alpha1.KnownRisk
	// Component is the component to move, empty if the risk is not about one; Version is the version it has.
	Component, Version string
	// Lowest is the lowest version of the component above Version without the risk, empty if none can be told.
	Lowest string
	// Kubernetes is the Kubernetes version of Clusters.
	Kubernetes string
	// Clusters are the workload clusters concerned, empty if the risk is not about any.
	Clusters []string
	// Management is the management cluster's Kubernetes version if the risk is about it, else empty.
	Management string
}

// Match returns the risks that stand, in the order in which they are known; clusters of one Kubernetes version are taken
// together. Ranges that can't be read hold nowhere; Parse refuses them.
func Match(risks []v1alpha1.KnownRisk, f Facts) []Risk {
	var out []Risk
	for _, known := range risks {
		if !onClusters(known) {
			if stands(known, f, Cluster{}) {
				out = append(out, risk(known, f, Cluster{}))
			}
			continue
		}
		first := len(out)
		for _, c := range f.Clusters {
			if !stands(known, f, c) {
				continue
			}
			i := slices.IndexFunc(out[first:], func(r Risk) bool { return r.Kubernetes == c.Version })
			if i < 0 {
				i = len(out) - first
				out = append(out, risk(known, f, c))
			}
			out[first+i].Clusters = append(out[first+i].Clusters, c.Key)
		}
	}
	return out
}

// onClusters tells whether a risk is about workload clusters.
func onClusters(r v1alpha1.KnownRisk) bool {
	about := func(c v1alpha1.RiskCondition) bool {
		return c.Kubernetes != "" || c.KubernetesFrom != "" || c.ControlPlane != ""
	}
	return about(r.When) || r.Requires != nil && about(*r.Requires)
}

// stands tells whether a risk holds for one cluster.
func stands(r v1alpha1.KnownRisk, f Facts, c Cluster) bool {
	if _, there := f.component(r.When.Component); !there || !holds(r.When, f, c) {
		return false
	}
	if r.Requires == nil {
		return true
	}
	_, there := f.component(r.Requires.Component)
	return there && !holds(*r.Requires, f, c)
}

// component finds a component; one without a name is any.
func (f Facts) component(name string) (Component, bool) {
	if name == "" {
		return Component{}, true
	}
	i := slices.IndexFunc(f.Components, func(c Component) bool { return slices.Contains(c.Names, name) })
	if i < 0 {
		return Component{}, false
	}
	return f.Components[i], true
}

func holds(w v1alpha1.RiskCondition, f Facts, c Cluster) bool {
	component, _ := f.component(w.Component)
	moves := component.From != "" && component.From != component.Version
	return in(w.Version, component.Version, version.Constraint.Contains) &&
		(w.From == "" || moves && in(w.From, component.From, version.Constraint.Contains)) &&
		in(w.Kubernetes, c.Version, version.Constraint.ContainsNumbers) &&
		(w.KubernetesFrom == "" || c.From != c.Version && in(w.KubernetesFrom, c.From, version.Constraint.ContainsNumbers)) &&
		(w.ControlPlane == "" || w.ControlPlane == c.ControlPlane) &&
		in(w.ManagementKubernetes, f.Management, version.Constraint.ContainsNumbers)
}

// in tells whether a version lies in a range; every version lies in an empty one.
func in(limits, have string, contains func(version.Constraint, version.Version) bool) bool {
	if limits == "" {
		return true
	}
	c, err := version.ParseConstraint(limits)
	if err != nil {
		return false
	}
	v, err := version.Parse(have)
	return err == nil && contains(c, v)
}

// risk says what has to be moved for a risk to go.
func risk(known v1alpha1.KnownRisk, f Facts, c Cluster) Risk {
	r := Risk{Known: known, Kubernetes: c.Version}
	limits, good := known.When, false
	if known.Requires != nil && known.Requires.Component != "" {
		limits, good = *known.Requires, true
	}
	if known.When.ManagementKubernetes != "" || known.Requires != nil && known.Requires.ManagementKubernetes != "" {
		r.Management = f.Management
	}
	component, _ := f.component(limits.Component)
	r.Component, r.Version = limits.Component, component.Version
	constraint, err := version.ParseConstraint(limits.Version)
	have, errHave := version.Parse(component.Version)
	if err == nil && errHave == nil {
		r.Lowest = constraint.Lowest(have, good)
	}
	return r
}
