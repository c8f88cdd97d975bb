// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/knowledge"
	"github.com/capstan-dev/capstan/internal/world"
)

func preflight() Check {
	return Check{
		ID: "CAP-NODE-PREFLIGHT", Scope: Nodes, Waivable: true,
		Title: "No pool is held back already",
		Doc: "Cluster API makes no new Machine of a pool while one of its preflight checks fails: that the control plane is stable, that versions fit. It says so " +
			"in a condition of the MachineSet and nowhere else, and waits without an end.",
		Fix:     "Repair what the check waits for, most often a control plane that does not reach its version.",
		Sources: []string{"https://github.com/k0rdent/kcm/issues/1389", "https://github.com/k0rdent/k0rdent/issues/15"},
		Needs:   []world.Topic{world.TopicNodes},
		Run: eachCluster(func(c *world.NodeCluster, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for i := range c.Pools {
				for _, words := range Held(c, &c.Pools[i]) {
					out = append(out, block(words, heldRemedy(c), c.Pools[i].Ref))
				}
			}
			return out
		}),
	}
}

func heldRemedy(c *world.NodeCluster) string {
	if cp := c.ControlPlane; cp != nil {
		return fmt.Sprintf("see what keeps the control plane: kubectl -n %s describe %s %s", cp.Ref.Namespace, resource(cp.Ref), cp.Ref.Name)
	}
	return fmt.Sprintf("kubectl -n %s describe machinesets", c.Ref.Namespace)
}

// Held says for each reason why a pool gets no new Machines, as Cluster API reports it; where it reports nothing although
// Machines are wanting, the control plane tells.
func Held(c *world.NodeCluster, p *world.Pool) []string {
	var out []string
	for _, f := range p.Preflights {
		out = append(out, fmt.Sprintf("%s of cluster %s is held by the preflight check %s: %s", p.Ref, c.Key(), cmp.Or(f.Check, "of Cluster API"), f.Message))
	}
	cp := c.ControlPlane
	skipped := slices.Contains(p.Skips, "All") || slices.Contains(p.Skips, "ControlPlaneIsStable")
	if len(out) > 0 || skipped || cp == nil || cp.Reached == "" || !cp.Moving() || p.Counts.Settled() {
		return out
	}
	return []string{fmt.Sprintf("%s of cluster %s is held by the preflight check ControlPlaneIsStable: it waits for %s to reach %s, which is at %s",
		p.Ref, c.Key(), cp.Ref, cp.Version, cp.Reached)}
}

func poolBehind() Check {
	return Check{
		ID: "CAP-POOL-BEHIND", Scope: Both, Waivable: true,
		Title: "Nodes have the version that their pool asks for",
		Doc: "A pool may count as rolled out although its nodes run another Kubernetes version than it asks for: its bootstrap configuration or machine image " +
			"carries a version of its own and was not made anew. Cluster API compares what was asked for, not what runs, so nothing complains.",
		Fix:     "Write the wanted version into what the pool's bootstrap reference or image names, as a new object, and refer to that.",
		Sources: []string{"https://github.com/k0rdent/k0rdent/issues/15", "https://github.com/k0rdent/kcm/issues/1389"},
		Needs:   []world.Topic{world.TopicNodes},
		Run: eachCluster(func(c *world.NodeCluster, t *Target) []v1alpha1.Finding {
			judge := block
			if t.Bundle != nil {
				judge = warn // a release moves no nodes
			}
			var out []v1alpha1.Finding
			if cp := c.ControlPlane; cp != nil && cp.Counts.Settled() && !cp.Moving() {
				if words := nodesBehind("control plane", cp.Ref, cp.Version, cp.Nodes); words != "" {
					out = append(out, judge(words+" in cluster "+c.Key(), behindRemedy(cp.Ref, nil), cp.Ref))
				}
			}
			for i := range c.Pools {
				p := &c.Pools[i]
				if words := Behind(p); words != "" {
					out = append(out, judge(words+" in cluster "+c.Key(), behindRemedy(p.Ref, p), p.Ref))
				}
			}
			return out
		}),
	}
}

// Behind says that a pool's roll is finished and its nodes are not at the version that it asks for; empty if they are, or
// if it still rolls.
func Behind(p *world.Pool) string {
	if !p.Counts.Settled() {
		return ""
	}
	return nodesBehind("pool", p.Ref, p.Version, p.Nodes)
}

func nodesBehind(what string, ref world.Ref, wanted string, nodes map[string]int) string {
	if wanted == "" {
		return ""
	}
	var old []string
	n := 0
	for _, v := range slices.Sorted(maps.Keys(nodes)) {
		if v != "" && !same(v, wanted) {
			old = append(old, v)
			n += nodes[v]
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: %d of %d nodes at %s, wanted %s, roll finished (%s)", what, ref.Name, n, world.Total(nodes), strings.Join(old, ", "), wanted, ref)
}

func behindRemedy(ref world.Ref, p *world.Pool) string {
	if p != nil && p.Bootstrap.Name != "" {
		for _, field := range slices.Sorted(maps.Keys(p.BootstrapVersions)) {
			if !same(p.BootstrapVersions[field], p.Version) {
				return fmt.Sprintf("%s %s carries %s in %s: copy it with the wanted version and refer to the copy", p.Bootstrap.Kind, p.Bootstrap.Name, p.BootstrapVersions[field], field)
			}
		}
		return fmt.Sprintf("see which version %s and the machine image carry: kubectl -n %s get %s %s -o yaml", p.Bootstrap, p.Bootstrap.Namespace, resource(p.Bootstrap), p.Bootstrap.Name)
	}
	return fmt.Sprintf("see which version its machine image carries: kubectl -n %s get %s %s -o yaml", ref.Namespace, resource(ref), ref.Name)
}

func bootstrapVersion() Check {
	return Check{
		ID: "CAP-BOOTSTRAP-VERSION", Scope: Nodes, Waivable: true,
		Title: "No bootstrap template carries another version",
		Doc: "A pool's version and the version that its bootstrap template installs are two fields. Where the template has one of its own, raising only the pool's " +
			"rolls every Machine and changes nothing. A field called version is sure; versions in scripts and file contents may be about something else.",
		Fix:     "Write the wanted version into a copy of the template and refer to that.",
		Sources: []string{"https://github.com/k0rdent/k0rdent/issues/15"},
		Needs:   []world.Topic{world.TopicNodes},
		Run: eachCluster(func(c *world.NodeCluster, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for i := range c.Pools {
				p := &c.Pools[i]
				if to := cmp.Or(t.nodes().Version, p.Version); to != "" && c.Topology == nil {
					out = append(out, carried(c, p, to)...)
				}
			}
			return out
		}),
	}
}

func carried(c *world.NodeCluster, p *world.Pool, to string) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, field := range slices.Sorted(maps.Keys(p.BootstrapVersions)) {
		have := p.BootstrapVersions[field]
		if agrees(have, to) {
			continue
		}
		text := fmt.Sprintf("%s of %s in cluster %s carries %s in %s, and the pool is to be at %s", p.Bootstrap, p.Ref, c.Key(), have, field, to)
		remedy := fmt.Sprintf("copy it with %s and refer to the copy: kubectl -n %s get %s %s -o yaml", to, p.Bootstrap.Namespace, resource(p.Bootstrap), p.Bootstrap.Name)
		if strings.HasSuffix(field, ".version") || strings.HasSuffix(field, ".kubernetesVersion") {
			out = append(out, block(text, remedy, p.Ref, p.Bootstrap))
			continue
		}
		out = append(out, warn(text, "make sure that it is not Kubernetes' version; else "+remedy, p.Ref, p.Bootstrap))
	}
	return out
}

// agrees tells whether a version found in a text is the wanted one: "v1.31" and "1.31.2" agree with "v1.31.2+k0s.0".
func agrees(found, wanted string) bool {
	if !strings.HasPrefix(found, "v") {
		found = "v" + found
	}
	if _, whole := numbers(found); whole {
		return same(found, wanted)
	}
	return strings.HasPrefix(wanted, found+".")
}

func nodeKnownRisk() Check {
	return Check{
		ID: "CAP-NODE-KNOWN-RISK", Scope: Nodes, Waivable: true,
		Title: "The providers that are installed can roll to the Kubernetes version that is asked for",
		Doc: "Some Kubernetes releases need a fix in the control plane or bootstrap provider that older providers do not have: a roll then stops after its first " +
			"Machine. Capstan's knowledge file holds such pairs with their public sources.",
		Fix:     "Upgrade the provider that is named first, then the nodes.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/13770"},
		Needs:   []world.Topic{world.TopicNodes},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			risks, err := knowledge.BuiltIn()
			if err != nil {
				return []v1alpha1.Finding{unknown("The knowledge file can't be read: "+err.Error(), "install Capstan anew")}
			}
			var out []v1alpha1.Finding
			for _, r := range knowledge.Match(risks, nodeFacts(w, t)) {
				if len(r.Clusters) > 0 {
					out = append(out, RiskFinding(r))
				}
			}
			return out
		},
	}
}

// nodeFacts are the providers as they are and the clusters as they will be.
func nodeFacts(w *world.World, t *Target) knowledge.Facts {
	f := knowledge.Facts{Management: w.Management.KubernetesVersion}
	for _, p := range w.Management.Providers {
		f.Components = append(f.Components, knowledge.Component{Names: []string{p.ManifestLabel, p.Name}, Version: p.Version, From: p.Version})
	}
	for _, c := range meant(w, t) {
		if c.ControlPlane == nil {
			continue
		}
		k := knowledge.Cluster{Key: c.Key(), Version: c.ControlPlane.Version, From: cmp.Or(c.ControlPlane.Reached, c.ControlPlane.Version), ControlPlane: c.ControlPlane.Ref.Kind}
		if v := t.nodes().Version; v != "" && t.nodes().ControlPlanes {
			k.Version = v
		}
		f.Clusters = append(f.Clusters, k)
	}
	return f
}
