// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/roll"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// NodeTarget is what is to become of the nodes of workload clusters.
type NodeTarget struct {
	// Version is the Kubernetes version to go to; empty to replace Machines without another version.
	Version string
	// DNSTag is CoreDNS's image tag to go to with the control planes; empty to leave it.
	DNSTag string
	// ControlPlanes tells that control planes move too, before the workers.
	ControlPlanes bool
	// Clusters are the clusters that are meant, as namespace/name.
	Clusters []string
	// Image is what Machines are rolled to; nil to leave their image.
	Image *v1alpha1.NodeImage
	// Roll is how, with what was found while it was planned; nil without an image.
	Roll *roll.Result
}

// includes tells whether a cluster is meant. Without a target for nodes all clusters are.
func (t *Target) includes(key string) bool {
	return t.Nodes == nil || slices.Contains(t.Nodes.Clusters, key)
}

// nodes returns the target for nodes; the zero one in a plan for the platform.
func (t *Target) nodes() NodeTarget {
	if t.Nodes == nil {
		return NodeTarget{}
	}
	return *t.Nodes
}

// meant returns the clusters that are meant and that nobody deletes.
func meant(w *world.World, t *Target) []*world.NodeCluster {
	if w.Survey == nil || w.Survey.Nodes == nil {
		return nil
	}
	var out []*world.NodeCluster
	for i := range w.Survey.Nodes.Clusters {
		if c := &w.Survey.Nodes.Clusters[i]; !c.Deleting && t.includes(c.Key()) {
			out = append(out, c)
		}
	}
	return out
}

// nodeChecks are about rolling the Machines of workload clusters.
func nodeChecks() []Check {
	return slices.Concat([]Check{
		versionSkew(), nodeChange(), nodeKnownRisk(), coreDNS(), etcdQuorum(), paused(), lifecycleHook(), preflight(), bootstrapVersion(), poolBehind(),
	}, rollChecks(), hostChecks(), imageChecks())
}

// eachCluster makes the function of a check out of one about a single cluster.
func eachCluster(judge func(c *world.NodeCluster, t *Target) []v1alpha1.Finding) func(*world.World, *Target) []v1alpha1.Finding {
	return func(w *world.World, t *Target) []v1alpha1.Finding {
		var out []v1alpha1.Finding
		for _, c := range meant(w, t) {
			out = append(out, judge(c, t)...)
		}
		return out
	}
}

func nodeChange() Check {
	return Check{
		ID: "CAP-NODE-CHANGE", Scope: Nodes,
		Title: "The API server takes the change of every control plane and pool",
		Doc: "The change of versions is sent to the API server as a dry run, so that its rules and the providers' webhooks answer as they would " +
			"to the real one: a version that is skipped, a field that can't change, an image tag that can't be migrated.",
		Fix:   "Change what the API server's answer names, or choose another version.",
		Needs: []world.Topic{world.TopicNodes, world.TopicNodeChange},
		Run: eachCluster(func(c *world.NodeCluster, _ *Target) []v1alpha1.Finding {
			out := answered(c.Ref, c.Change)
			if c.ControlPlane != nil {
				out = append(out, answered(c.ControlPlane.Ref, c.ControlPlane.Change)...)
			}
			for _, p := range c.Pools {
				out = append(out, answered(p.Ref, p.Change)...)
			}
			return out
		}),
	}
}

func answered(ref world.Ref, a world.Answer) []v1alpha1.Finding {
	switch {
	case a.Refused == "":
		return nil
	case a.Silent:
		return []v1alpha1.Finding{unknown(fmt.Sprintf("The change of %s could not be tried: %s", ref, a.Refused),
			"bring back the webhook that is named, then plan again", ref)}
	}
	return []v1alpha1.Finding{block(fmt.Sprintf("The API server would refuse the change of %s: %s", ref, a.Refused),
		fmt.Sprintf("look at what it names: kubectl -n %s get %s %s -o yaml", ref.Namespace, resource(ref), ref.Name), ref)}
}

func etcdQuorum() Check {
	return Check{
		ID: "CAP-ETCD-QUORUM", Scope: Nodes, Waivable: true,
		Title: "Stacked etcd has an odd number of members",
		Doc: "With etcd on the control plane Machines, an even number of them tolerates no more failures than the odd number below it, and cannot lose " +
			"half. Cluster API's kubeadm provider refuses an even number today, and also any further change of a control plane that has one from before. " +
			"A roll that takes a member away before it adds one (maxSurge 0) needs three members at least.",
		Fix:     "Scale the control plane to an odd number first. A control plane with an external etcd may have any number.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/4057"},
		Needs:   []world.Topic{world.TopicNodes},
		Run: eachCluster(func(c *world.NodeCluster, _ *Target) []v1alpha1.Finding {
			cp := c.ControlPlane
			if cp == nil || cp.Etcd != world.EtcdStacked || cp.Counts.Desired < 1 {
				return nil
			}
			n := cp.Counts.Desired
			switch {
			case n%2 == 0:
				return []v1alpha1.Finding{block(
					fmt.Sprintf("%s of cluster %s asks for %d replicas with stacked etcd: an even number of members; the next odd numbers are %d and %d",
						cp.Ref, c.Key(), n, n-1, n+1),
					fmt.Sprintf("%s (or %d)", scale(c, n+1), n-1), cp.Ref)}
			case n < 3 && surges(cp.MaxSurge) == 0:
				return []v1alpha1.Finding{block(
					fmt.Sprintf("%s of cluster %s has %d replicas with stacked etcd and maxSurge 0: a roll would take away a member that etcd needs; it takes 3 or more",
						cp.Ref, c.Key(), n),
					fmt.Sprintf("set its maxSurge to 1, or: %s", scale(c, 3)), cp.Ref)}
			}
			return nil
		}),
	}
}

// scale is the command that scales a cluster's control plane.
func scale(c *world.NodeCluster, n int64) string {
	if c.Topology != nil {
		return fmt.Sprintf(`kubectl -n %s patch cluster %s --type merge -p '{"spec":{"topology":{"controlPlane":{"replicas":%d}}}}'`, c.Ref.Namespace, c.Ref.Name, n)
	}
	ref := c.ControlPlane.Ref
	return fmt.Sprintf(`kubectl -n %s patch %s %s --type merge -p '{"spec":{"replicas":%d}}'`, ref.Namespace, resource(ref), ref.Name, n)
}

// surges reads a maxSurge: for a percentage only zero matters.
func surges(s string) int {
	if s == "0" || s == "0%" {
		return 0
	}
	return 1
}

// resource is how kubectl is told a kind without a doubt about its group.
func resource(ref world.Ref) string {
	group, _, found := strings.Cut(ref.APIVersion, "/")
	if !found {
		return strings.ToLower(ref.Kind)
	}
	return strings.ToLower(ref.Kind) + "." + group
}

// numbers reads a version and leaves out what a distribution appends; ok is false for what is none.
func numbers(s string) (version.Version, bool) {
	v, err := version.Parse(s)
	return v, err == nil
}

// same tells whether two versions are the same release of Kubernetes, whatever a distribution appends.
func same(a, b string) bool {
	left, okLeft := numbers(a)
	right, okRight := numbers(b)
	if !okLeft || !okRight {
		return a == b
	}
	return left.Major() == right.Major() && left.Minor() == right.Minor() && left.Patch() == right.Patch()
}
