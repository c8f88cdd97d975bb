// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/knowledge"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// selfHostedChecks are about Clusters that are the management cluster itself.
func selfHostedChecks() []Check {
	return []Check{selfHosted(), selfHostedKubernetes()}
}

// SelfHosted returns the Clusters that are the management cluster itself, sorted.
func SelfHosted(w *world.World) []v1alpha1.ObjectReference {
	var out []v1alpha1.ObjectReference
	for _, h := range managing(w) {
		ref := fleetCluster(h.cluster)
		ref.APIVersion = cmp.Or(w.Management.ClusterAPIVersion, ref.APIVersion)
		out = append(out, v1alpha1.ObjectReference(ref))
	}
	return out
}

// managingCluster is the management cluster as one of its own Clusters.
type managingCluster struct {
	cluster *world.Cluster
	host    world.Host
}

func managing(w *world.World) []managingCluster {
	var out []managingCluster
	for _, h := range w.Survey.FleetOf().Hosts {
		for i := range w.Clusters {
			if h.Managing != "" && w.Clusters[i].Key() == h.Cluster {
				out = append(out, managingCluster{&w.Clusters[i], h})
			}
		}
	}
	return out
}

func selfHosted() Check {
	return Check{
		ID: "CAP-SELF-HOSTED", Waivable: true, Needs: []world.Topic{world.TopicHosts, world.TopicRollouts},
		Title: "It is known whether the management cluster manages itself",
		Doc: "Where the management cluster is one of its own Clusters, new controllers may replace the very nodes that they run on. Its Cluster is therefore paused " +
			"before the first component moves, and spec.paused is put back when the run ends or is aborted. If a controller writes another template for it meanwhile, " +
			"the run stops, names the difference, and leaves it paused: to roll its nodes is a step of its own.",
		Fix:     "Nothing has to be done. A difference that is pending rolls the nodes once the Cluster is unpaused: choose when.",
		Sources: []string{"https://github.com/aws/eks-anywhere/issues/2710"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, m := range managing(w) {
				c := m.cluster
				if !c.Paused && !t.Still() {
					out = append(out, warn(
						fmt.Sprintf("Cluster %s is the management cluster itself (%s): it is paused while components move, then put back", c.Key(), m.host.Managing),
						"nothing has to be done; its nodes are rolled by a step of its own, once this upgrade is done", fleetCluster(c)))
				}
				if pending := pendingRoll(w, m); len(pending) > 0 && c.Paused {
					out = append(out, warn(
						fmt.Sprintf("Cluster %s is the management cluster itself, and its nodes are replaced once it is unpaused: %s", c.Key(), strings.Join(pending, "; ")),
						fmt.Sprintf("upgrade first; then roll its nodes as a step of its own, by unpausing it: kubectl patch cluster -n %s %s --type merge -p '{\"spec\":{\"paused\":false}}'", c.Namespace, c.Name),
						fleetCluster(c)))
				}
			}
			return out
		},
	}
}

// pendingRoll says in words what of a cluster's own nodes is not as its owners want it.
func pendingRoll(w *world.World, m managingCluster) []string {
	var out []string
	fleet, key := w.Survey.FleetOf(), m.cluster.Key()
	for _, r := range fleet.Rollouts {
		if r.Cluster != key || r.Owner.Kind == "MachineDeployment" || r.Owner.Kind == "MachinePool" || r.Owner.Kind == "MachineSet" {
			continue
		}
		out = append(out, planeDiffers(m, r)...)
	}
	for _, s := range fleet.Machines {
		if s.Cluster == key && s.Outdated != "" {
			out = append(out, fmt.Sprintf("Machine %s is not up to date: %s", s.Name, s.Outdated))
		}
	}
	for _, p := range fleet.Pairs {
		if p.Cluster == key && len(p.Differs) > 0 {
			out = append(out, fmt.Sprintf("%s differs from MachineSet %s in %s", p.Deployment, p.Newest.Name, strings.Join(p.Differs, ", ")))
		}
	}
	return out
}

// planeDiffers says in words which Machines of a control plane are from another template or of another version.
func planeDiffers(m managingCluster, r world.Rollout) []string {
	var out []string
	if from := slices.Sorted(maps.Values(m.host.Clones)); len(from) > 0 {
		out = append(out, fmt.Sprintf("%s wants infrastructure from %s, and %s made from %s",
			r.Owner, r.Infrastructure.Name, areOf(len(from)), phrase.Some(slices.Compact(from))))
	}
	old := 0
	for _, machine := range m.cluster.Machines {
		if machine.Owner.Kind == r.Owner.Kind && machine.Owner.Name == r.Owner.Name && r.Version != "" && machine.Version != "" && machine.Version != r.Version {
			old++
		}
	}
	if old > 0 {
		out = append(out, fmt.Sprintf("%s wants Kubernetes %s, and %s of another version", r.Owner, r.Version, areOf(old)))
	}
	return out
}

func areOf(n int) string {
	if n == 1 {
		return "1 Machine is"
	}
	return fmt.Sprintf("%d Machines are", n)
}

func selfHostedKubernetes() Check {
	return Check{
		ID: "CAP-SELF-HOSTED-KUBERNETES", Waivable: true, Scope: Both, Needs: []world.Topic{world.TopicHosts},
		Title: "The management cluster's own Kubernetes stays within what its providers support",
		Doc: "Where the management cluster is one of its own Clusters, its controllers upgrade the Kubernetes that they run on. If that goes beyond what they support, they may " +
			"call APIs that are gone, and die half-way through their own upgrade. The order is: providers first, then Kubernetes. What an installed provider supports is known from " +
			"the release that installed it, or else from Cluster API's own table.",
		Fix:     "Take the version back, upgrade the providers to a release that supports it, then raise Kubernetes.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/4966", "https://cluster-api.sigs.k8s.io/reference/versions"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, m := range managing(w) {
				out = append(out, beyond(w, t, m.cluster)...)
			}
			return out
		},
	}
}

// beyond returns a finding for each installed provider that does not support the Kubernetes version that is asked for.
func beyond(w *world.World, t *Target, c *world.Cluster) []v1alpha1.Finding {
	asked, where := requested(t, c)
	want, err := version.Parse(asked)
	if err != nil {
		return nil
	}
	var out []v1alpha1.Finding
	for _, p := range w.Management.Providers {
		most := installedMax(t, p)
		if most == "" || within(want, most) {
			continue
		}
		summary := fmt.Sprintf("Cluster %s is the management cluster itself, and %s asks for Kubernetes %s, but %s %s supports management clusters up to %s only",
			c.Key(), where, asked, p.ManifestLabel, p.Version, most)
		if next := targetMax(t, p); next != "" && within(want, next) && (c.Paused || there(w, want)) {
			out = append(out, warn(summary+"; this upgrade brings one that supports it",
				"providers first, then Kubernetes: upgrade to this release before the cluster moves on", fleetCluster(c)))
			continue
		}
		out = append(out, block(summary, fmt.Sprintf(
			"providers first, then Kubernetes: take the version back to %s, upgrade to a release with a %s that supports %s, then raise it", most, p.ManifestLabel, asked),
			fleetCluster(c)))
	}
	return out
}

// requested is the highest version that a cluster is asked to have, and what asks for it.
func requested(t *Target, c *world.Cluster) (asked, where string) {
	consider := func(v, by string) {
		if order, err := version.Compare(v, asked); v != "" && (asked == "" || err == nil && order > 0) {
			asked, where = v, by
		}
	}
	consider(c.Version, "its control plane")
	consider(c.TopologyVersion, "its topology")
	if t.Nodes != nil && t.includes(c.Key()) {
		consider(t.Nodes.Version, "this plan")
	}
	return asked, where
}

// there tells that the management cluster already has a version, or a higher one.
func there(w *world.World, want version.Version) bool {
	have, err := version.Parse(w.Management.KubernetesVersion)
	return err == nil && have.Compare(want) >= 0
}

func within(v version.Version, most string) bool {
	r, err := version.ParseRange(&v1alpha1.VersionRange{Max: most})
	return err != nil || r.Contains(v)
}

// installedMax is the highest Kubernetes version on which the installed version of a provider manages; empty if not known.
func installedMax(t *Target, p world.Provider) string {
	for _, c := range slices.Concat(t.Installed, t.Components) {
		if c.Provider != nil && label(c.Provider) == p.ManifestLabel && c.To == p.Version && managementMax(c.Kubernetes) != "" {
			return managementMax(c.Kubernetes)
		}
	}
	return known(p.ManifestLabel, p.Version)
}

// targetMax is the same for the version that it will have; empty if not known.
func targetMax(t *Target, p world.Provider) string {
	for _, c := range t.Components {
		if c.Provider != nil && label(c.Provider) == p.ManifestLabel {
			return cmp.Or(managementMax(c.Kubernetes), known(p.ManifestLabel, c.To))
		}
	}
	return known(p.ManifestLabel, p.Version)
}

func managementMax(r *v1alpha1.KubernetesRanges) string {
	if r == nil || r.Management == nil {
		return ""
	}
	return r.Management.Max
}

// known is what is written down about a provider; a table that can't be read is a fault of the program that its tests find.
func known(provider, v string) string {
	most, err := knowledge.ManagementMax(provider, v)
	if err != nil {
		return ""
	}
	return most
}

func label(p *v1alpha1.ProviderIdentity) string {
	return clusterctlv1.ManifestLabel(p.Name, clusterctlv1.ProviderType(p.Type))
}
