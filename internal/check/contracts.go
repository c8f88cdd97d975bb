// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

func contracts() Check {
	return Check{
		ID: "CAP-CONTRACT", Waivable: true,
		Title: "All providers speak a contract that the core provider knows afterwards",
		Doc: "Providers talk to Cluster API through a contract version. A provider whose contracts the core provider does not know is ignored by it: " +
			"its clusters stop being reconciled. A core provider may know an older contract for a time; then the provider works, and its move is due. " +
			"What a provider speaks is read from its metadata (of the release, or of ConfigMaps in the cluster) and from the labels of its CRDs; one contract in " +
			"common is enough. Providers that are installed but not part of the release count too.",
		Fix: "Take a version of the provider that speaks the core provider's contract into the release, or stay at a core provider that knows the old one until there is one.",
		Sources: []string{
			"https://github.com/kubernetes-sigs/cluster-api-operator/issues/570",
			"https://github.com/kubernetes-sigs/cluster-api/pull/11196",
			"https://github.com/k0rdent/kcm/issues/586",
			"https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview",
		},
		Needs: []world.Topic{world.TopicContracts},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			core, providers := matrix(w, t)
			if len(core.contracts) == 0 {
				return nil
			}
			var out []v1alpha1.Finding
			for _, p := range providers {
				out = append(out, p.judge(core)...)
			}
			return out
		},
	}
}

// Contracts returns the matrix of providers and contracts for the plan, the core provider first.
func Contracts(w *world.World, t *Target) []v1alpha1.ProviderContracts {
	core, providers := matrix(w, t)
	var out []v1alpha1.ProviderContracts
	for _, s := range append([]speaker{core}, providers...) {
		if s.label == "" {
			continue
		}
		out = append(out, v1alpha1.ProviderContracts{Provider: s.label, Version: s.version, Contracts: s.contracts, Source: s.source, Stays: s.stays})
	}
	return out
}

// judge compares what a provider speaks with what the core provider works with.
func (s speaker) judge(core speaker) []v1alpha1.Finding {
	if len(s.contracts) == 0 {
		return s.silent()
	}
	if !overlap(s.contracts, core.contracts) {
		return []v1alpha1.Finding{block(
			fmt.Sprintf("Provider %s speaks %s, and core provider %s works with %s only: %s",
				s.named(), phrase.Named("contract", s.contracts), core.version, strings.Join(core.contracts, ", "), s.published(core.contracts)),
			s.remedy(core), s.refs...)}
	}
	if !slices.Contains(s.contracts, core.contracts[0]) {
		return []v1alpha1.Finding{warn(
			fmt.Sprintf("Provider %s speaks %s; core provider %s speaks %s and still works with it", s.named(), phrase.Named("contract", s.contracts), core.version, core.contracts[0]),
			fmt.Sprintf("plan its move to a version that speaks %s: a later core provider will not know %s", core.contracts[0], strings.Join(s.contracts, ", ")), s.refs...)}
	}
	var out []v1alpha1.Finding
	for _, crd := range s.crds {
		if len(crd.contracts) > 0 && !overlap(crd.contracts, core.contracts) {
			out = append(out, warn(
				fmt.Sprintf("CRD %s of provider %s is labelled for %s only, which core provider %s does not work with", crd.name, s.named(), phrase.Named("contract", crd.contracts), core.version),
				fmt.Sprintf("see whether any cluster uses it: kubectl get %s -A", crd.name)))
		}
	}
	return out
}

// silent reports a provider whose contract nobody knows, where the core provider would have to know it.
func (s speaker) silent() []v1alpha1.Finding {
	if s.stays || !s.answers {
		return nil // a provider that stays is reported as such already
	}
	return []v1alpha1.Finding{warn(
		fmt.Sprintf("Provider %s names no contract: it has no metadata, and its CRDs have no label cluster.x-k8s.io/CONTRACT", s.named()),
		"add its metadata.yaml to the release")}
}

// named is the provider with its version.
func (s speaker) named() string {
	if s.stays {
		return fmt.Sprintf("%s %s, which is not part of the release,", s.label, s.version)
	}
	return s.label + " " + s.version
}

// published says whether the provider's own metadata knows of a release for one of the contracts.
func (s speaker) published(contracts []string) string {
	for _, c := range contracts {
		for _, m := range s.known {
			if m.contract == c {
				return fmt.Sprintf("%s has %s for contract %s", m.source, m.version, c)
			}
		}
	}
	return fmt.Sprintf("no release found for contract %s in %s", contracts[0], s.searched)
}

func (s speaker) remedy(core speaker) string {
	if s.stays {
		return fmt.Sprintf("add a version of %s that speaks %s to the release, or stay at a core provider that works with %s", s.label, core.contracts[0], strings.Join(s.contracts, ", "))
	}
	return fmt.Sprintf("use a version of %s that speaks %s", s.label, core.contracts[0])
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(c string) bool { return slices.Contains(b, c) })
}
