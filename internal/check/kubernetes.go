// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

func kubernetesRange() Check {
	return Check{
		ID: "CAP-KUBERNETES-RANGE", Waivable: true,
		Title: "The release and its components support the Kubernetes versions that are there",
		Doc: "A release, and each of its components, may state which Kubernetes versions it supports, for the management cluster and for workload clusters. " +
			"Controllers outside their range have been seen to fail at start, or to refuse to roll nodes. The API server's version is read once; what a distribution " +
			"puts behind the patch number does not count.",
		Fix:     "Move the cluster to a version within the range first, or choose another release.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/2837", "https://github.com/kubernetes-sigs/cluster-api/issues/4966"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			out := outside(limits(t, func(r *v1alpha1.KubernetesRanges) *v1alpha1.VersionRange { return r.Management }),
				w.Management.KubernetesVersion, []string{"the management cluster"})
			workload := limits(t, func(r *v1alpha1.KubernetesRanges) *v1alpha1.VersionRange { return r.Workload })
			if len(workload) == 0 {
				return out
			}
			for _, g := range byVersion(w) {
				for _, f := range outside(workload, g.version, g.clusters) {
					f.Objects = append(f.Objects, g.refs...)
					out = append(out, f)
				}
			}
			return out
		},
	}
}

// limit is a range with whose it is.
type limit struct {
	who    string
	limits version.Range
}

// limits returns all ranges for one role of cluster.
func limits(t *Target, of func(*v1alpha1.KubernetesRanges) *v1alpha1.VersionRange) []limit {
	var out []limit
	add := func(who string, ranges *v1alpha1.KubernetesRanges) {
		if ranges == nil || of(ranges) == nil {
			return
		}
		if r, err := version.ParseRange(of(ranges)); err == nil { // a release whose ranges can't be read is refused earlier
			out = append(out, limit{who, r})
		}
	}
	spec := t.Bundle.Release.Spec
	for _, r := range t.Bundle.Components {
		add(fmt.Sprintf("component %s %s", r.Component.Name, r.Component.Version), r.Component.Kubernetes)
	}
	add("release "+spec.Version, spec.Kubernetes)
	return out
}

// outside reports a version that is outside some of the ranges, once, with the strictest of them first.
func outside(all []limit, have string, whose []string) []v1alpha1.Finding {
	if len(all) == 0 {
		return nil
	}
	v, err := version.Parse(have)
	if err != nil {
		return []v1alpha1.Finding{unknown(fmt.Sprintf("The Kubernetes version of %s can't be read: %v", phrase.Some(whose), err), "look at the cluster's version")}
	}
	low := slices.DeleteFunc(slices.Clone(all), func(l limit) bool { return !l.limits.Below(v) })
	high := slices.DeleteFunc(slices.Clone(all), func(l limit) bool { return l.limits.Below(v) || l.limits.Contains(v) })
	slices.SortStableFunc(low, func(a, b limit) int { return b.limits.Min().Compare(a.limits.Min()) })
	slices.SortStableFunc(high, func(a, b limit) int { return a.limits.Max().Compare(b.limits.Max()) })
	var out []v1alpha1.Finding
	if len(low) > 0 {
		out = append(out, block(
			fmt.Sprintf("Kubernetes %s of %s is too old for %s, which needs at least %s%s", have, phrase.Some(whose), low[0].who, low[0].limits.Min(), besides(low[1:])),
			fmt.Sprintf("move it to Kubernetes %s or higher first, or choose another release", low[0].limits.Min())))
	}
	if len(high) > 0 {
		out = append(out, block(
			fmt.Sprintf("Kubernetes %s of %s is too new for %s, which supports %s%s", have, phrase.Some(whose), high[0].who, high[0].limits, besides(high[1:])),
			fmt.Sprintf("choose a release that supports Kubernetes %s", have)))
	}
	return out
}

// besides names others that a version is outside of.
func besides(more []limit) string {
	if len(more) == 0 {
		return ""
	}
	var names []string
	for _, l := range more {
		names = append(names, fmt.Sprintf("%s (%s)", l.who, l.limits))
	}
	return "; also outside what these support: " + strings.Join(names, ", ")
}

// versionGroup is a Kubernetes version with the workload clusters in which it is, or is to be.
type versionGroup struct {
	version  string
	clusters []string
	refs     []v1alpha1.ObjectReference
}

// byVersion groups clusters by the versions of their control planes, topologies and Machines.
func byVersion(w *world.World) []versionGroup {
	var out []versionGroup
	for i := range w.Clusters {
		c := &w.Clusters[i]
		if c.Deleting {
			continue
		}
		versions := []string{c.Version, c.TopologyVersion}
		for _, m := range c.Machines {
			versions = append(versions, m.Version)
		}
		slices.Sort(versions)
		for _, v := range slices.Compact(versions) {
			if v == "" {
				continue
			}
			at := slices.IndexFunc(out, func(g versionGroup) bool { return g.version == v })
			if at < 0 {
				at = len(out)
				out = append(out, versionGroup{version: v})
			}
			out[at].clusters = append(out[at].clusters, "cluster "+c.Key())
			out[at].refs = append(out[at].refs, clusterReference(w, c))
		}
	}
	return out
}

func clusterReference(w *world.World, c *world.Cluster) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{APIVersion: w.Management.ClusterAPIVersion, Kind: "Cluster", Namespace: c.Namespace, Name: c.Name}
}
