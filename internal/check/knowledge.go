// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/knowledge"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// knowledgeChecks are about what others have met before.
func knowledgeChecks() []Check {
	return []Check{knownRisks()}
}

func knownRisks() Check {
	return Check{
		ID: "CAP-KNOWN-RISK", Waivable: true,
		Title: "No combination of versions is known to be bad",
		Doc: "Some pairs of versions are known to fail, though each is fine alone: a Kubernetes patch level that a control plane provider can't roll, a provider release that " +
			"recreates Machines. Capstan brings a file of them, each with its public source; a release can add its own (spec.knownRisks), and so can you (--knowledge FILE). " +
			"Judged are the versions after the upgrade, with the Kubernetes versions that clusters have or are being moved to.",
		Fix:     "Move to the version that the finding names first, or do the manual step that it gives.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/13770", "https://github.com/kubernetes/kubeadm/issues/3310"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			risks, err := knowledge.BuiltIn()
			if err != nil {
				return []v1alpha1.Finding{unknown("Capstan's own knowledge can't be read: "+err.Error(), "report this as a bug of Capstan")}
			}
			risks = slices.Concat(risks, t.Bundle.Release.Spec.KnownRisks, t.Knowledge)
			after := knowledge.Match(risks, facts(w, t, true))
			var out []v1alpha1.Finding
			for _, r := range after {
				out = append(out, RiskFinding(r))
			}
			for _, r := range knowledge.Match(risks, facts(w, t, false)) {
				stands := func(other knowledge.Risk) bool { return other.Known.ID == r.Known.ID }
				if !slices.ContainsFunc(after, stands) && r.Known.Verdict != v1alpha1.VerdictWarn {
					f := RiskFinding(r)
					f.Verdict, f.Summary = v1alpha1.VerdictWarn, "Before the upgrade: "+f.Summary
					f.Remedy = "nothing: this upgrade ends it. Don't change the clusters' Kubernetes version until it is done"
					out = append(out, f)
				}
			}
			return out
		},
	}
}

// RiskFinding is the finding for a known risk that stands.
func RiskFinding(r knowledge.Risk) v1alpha1.Finding {
	verdict := r.Known.Verdict
	if verdict == "" {
		verdict = v1alpha1.VerdictBlock
	}
	return v1alpha1.Finding{Verdict: verdict, Summary: riskSummary(r), Remedy: riskRemedy(r)}
}

func riskSummary(r knowledge.Risk) string {
	var with []string
	if r.Component != "" {
		with = append(with, r.Component+" "+r.Version)
	}
	if len(r.Clusters) > 0 {
		with = append(with, fmt.Sprintf("Kubernetes %s of %s", r.Kubernetes, phrase.Some(prefixed("cluster ", r.Clusters))))
	}
	if r.Management != "" {
		with = append(with, fmt.Sprintf("Kubernetes %s of the management cluster", r.Management))
	}
	return fmt.Sprintf("Known to be bad (%s): %s: %s", r.Known.ID, strings.Join(with, " with "), r.Known.Summary)
}

func riskRemedy(r knowledge.Risk) string {
	var parts []string
	if r.Lowest != "" {
		parts = append(parts, fmt.Sprintf("go to %s %s or later first", r.Component, r.Lowest))
	}
	if r.Known.Remedy != "" {
		parts = append(parts, r.Known.Remedy)
	}
	if len(parts) == 0 {
		parts = append(parts, "choose another combination of versions")
	}
	return strings.Join(parts, ", ") + "; see " + r.Known.Sources[0]
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}

// facts are the versions after the upgrade, or before it.
func facts(w *world.World, t *Target, after bool) knowledge.Facts {
	f := knowledge.Facts{Management: w.Management.KubernetesVersion}
	for _, c := range t.Components {
		one := knowledge.Component{Names: []string{c.Name}, Version: c.To, From: c.From}
		if !after {
			one.Version = c.From
		}
		if c.Provider != nil {
			one.Names = append(one.Names, clusterctlv1.ManifestLabel(c.Provider.Name, clusterctlv1.ProviderType(c.Provider.Type)))
		}
		if one.Version != "" {
			f.Components = append(f.Components, one)
		}
	}
	for _, p := range w.Management.Providers {
		inRelease := slices.ContainsFunc(f.Components, func(c knowledge.Component) bool { return slices.Contains(c.Names, p.ManifestLabel) })
		if !inRelease {
			f.Components = append(f.Components, knowledge.Component{Names: []string{p.ManifestLabel}, Version: p.Version, From: p.Version})
		}
	}
	for i := range w.Clusters {
		f.Clusters = append(f.Clusters, clusterFacts(&w.Clusters[i])...)
	}
	return f
}

// clusterFacts are the versions that a cluster's control plane is asked to have: its own, and its topology's if the control
// plane was not told yet.
func clusterFacts(c *world.Cluster) []knowledge.Cluster {
	if c.Deleting || c.Version == "" {
		return nil
	}
	kind := ""
	for _, o := range c.Owners {
		if strings.HasPrefix(o.Ref.APIVersion, "controlplane.cluster.x-k8s.io/") {
			kind = o.Ref.Kind
		}
	}
	out := []knowledge.Cluster{{Key: c.Key(), Version: c.Version, From: c.Version, ControlPlane: kind}}
	if c.TopologyVersion != "" && c.TopologyVersion != c.Version {
		out = append(out, knowledge.Cluster{Key: c.Key(), Version: c.TopologyVersion, From: c.Version, ControlPlane: kind})
	}
	return out
}
