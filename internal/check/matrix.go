// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// coreCRD is the CRD whose API versions are, by Cluster API's convention, the contracts that the core provider can read.
const coreCRD = "clusters.cluster.x-k8s.io"

// speaker is a provider with the contracts it speaks once the upgrade is done.
type speaker struct {
	label, version string
	// contracts are newest first; for the core provider its own comes first, then those it works with besides.
	contracts []string
	// source says where they are known from, searched where a release for another contract was looked for.
	source, searched string
	// known are the releases that the provider's metadata tells of.
	known []published
	// crds are the provider's CRDs.
	crds []labelled
	// answers tells that the provider has kinds that the core provider reads.
	answers bool
	// stays tells that it is no part of the release.
	stays bool
	refs  []world.Ref
}

// published is a release series of a provider.
type published struct{ version, contract, source string }

// labelled is a CRD with the contracts of its labels and its API versions.
type labelled struct {
	name                string
	contracts, versions []string
}

// matrix returns what the core provider and all others will speak.
func matrix(w *world.World, t *Target) (core speaker, others []speaker) {
	for _, r := range t.Bundle.Components {
		p := r.Component.Provider
		if p == nil {
			continue
		}
		s := incoming(r, w.Survey)
		if p.Type == string(clusterctlv1.CoreProviderType) {
			core = s.asCore(r.Contract)
			continue
		}
		others = append(others, s)
	}
	for _, p := range w.Management.Providers {
		inRelease := slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool {
			return c.Provider != nil && c.Provider.Name == p.Name && c.Provider.Type == p.Type
		})
		if inRelease {
			continue
		}
		s := staying(p, w.Survey)
		if p.Type == string(clusterctlv1.CoreProviderType) {
			core = s.asCore("")
			continue
		}
		others = append(others, s)
	}
	return core, others
}

// incoming reads a provider of the release.
func incoming(r *release.Rendered, s *world.Survey) speaker {
	c := r.Component
	out := speaker{label: clusterctlv1.ManifestLabel(c.Provider.Name, clusterctlv1.ProviderType(c.Provider.Type)), version: c.Version}
	for _, o := range r.Objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		out.crds = append(out.crds, labelled{name: o.GetName(), contracts: version.Contracts(o.GetLabels()), versions: VersionNames(o)})
		if strings.HasSuffix(o.GetName(), ".cluster.x-k8s.io") && readsKinds(c.Provider.Type) {
			out.answers = true
		}
	}
	metadata := "the labels of its CRDs"
	switch {
	case c.Metadata != nil:
		metadata = release.Describe(*c.Metadata)
	case r.Metadata != nil:
		metadata = release.Describe(c.Source)
	}
	out.searched = metadata
	out.read(r.Metadata, metadata)
	for _, m := range metadataOf(s, c.Provider.Name, c.Provider.Type) {
		parsed, ok := parse(m)
		if !ok {
			continue
		}
		out.know(parsed, m.Source)
		if r.Metadata == nil {
			out.searched = m.Source
			out.read(parsed, m.Source)
		}
	}
	out.add("the labels of its CRDs", contractsOf(out.crds)...)
	return out
}

// staying reads an installed provider that is no part of the release.
func staying(p world.Provider, s *world.Survey) speaker {
	out := speaker{
		label: p.ManifestLabel, version: p.Version, stays: true, searched: "the cluster",
		refs: []world.Ref{{APIVersion: "clusterctl.cluster.x-k8s.io/v1alpha3", Kind: "Provider", Namespace: p.Namespace, Name: p.ManifestLabel}},
	}
	if s != nil && s.Contracts != nil {
		for _, crd := range s.Contracts.CRDs {
			if crd.Provider == p.ManifestLabel {
				out.crds = append(out.crds, labelled{name: crd.Name, contracts: version.Contracts(crd.Labels), versions: crd.Versions})
			}
		}
	}
	for _, m := range metadataOf(s, p.Name, p.Type) {
		if parsed, ok := parse(m); ok {
			out.searched = m.Source
			out.know(parsed, m.Source)
			out.read(parsed, m.Source)
		}
	}
	out.add("the labels of its CRDs", contractsOf(out.crds)...)
	return out
}

// asCore makes of what a core provider speaks what it works with. It has no contract labels of its own: without metadata
// the newest version of its Clusters is its contract. An older contract goes when the API version of its name does.
func (s speaker) asCore(contract string) speaker {
	var served []string
	for _, crd := range s.crds {
		if crd.name == coreCRD {
			served = crd.versions
		}
	}
	if contract == "" && len(s.contracts) > 0 {
		contract = s.contracts[0]
	}
	if contract == "" {
		contract = version.NewestAPIVersion(served)
		s.source = "the versions of its CRDs"
	}
	s.contracts = nil
	if contract == "" {
		return s
	}
	for _, c := range version.CompatibleContracts(contract) {
		if c == contract || len(served) == 0 || slices.Contains(served, c) {
			s.contracts = append(s.contracts, c)
		}
	}
	return s
}

// read takes the contract of the provider's version from its metadata.
func (s *speaker) read(m *clusterctlv1.Metadata, source string) {
	if m == nil {
		return
	}
	s.know(m, source)
	v, err := version.Parse(s.version)
	if err != nil {
		return
	}
	if contract, ok := version.Contract(m, v); ok {
		s.add(source, contract)
	}
}

// know remembers which releases the metadata tells of.
func (s *speaker) know(m *clusterctlv1.Metadata, source string) {
	for _, series := range m.ReleaseSeries {
		p := published{version: fmt.Sprintf("v%d.%d", series.Major, series.Minor), contract: series.Contract, source: source}
		if series.Contract != "" && !slices.Contains(s.known, p) {
			s.known = append(s.known, p)
		}
	}
}

func (s *speaker) add(source string, contracts ...string) {
	if len(contracts) == 0 {
		return
	}
	if s.source == "" {
		s.source = source
	}
	s.contracts = version.SortContracts(append(s.contracts, contracts...))
}

// readsKinds tells whether the core provider reads kinds of such a provider.
func readsKinds(providerType string) bool {
	switch clusterctlv1.ProviderType(providerType) {
	case clusterctlv1.BootstrapProviderType, clusterctlv1.ControlPlaneProviderType, clusterctlv1.InfrastructureProviderType:
		return true
	case clusterctlv1.CoreProviderType, clusterctlv1.IPAMProviderType, clusterctlv1.RuntimeExtensionProviderType, clusterctlv1.AddonProviderType,
		clusterctlv1.ProviderTypeUnknown:
	}
	return false
}

func contractsOf(crds []labelled) []string {
	var out []string
	for _, c := range crds {
		out = append(out, c.contracts...)
	}
	return version.SortContracts(out)
}

// metadataOf returns what ConfigMaps in the cluster say of a provider. Their label says the type without "Provider", with
// or without a hyphen.
func metadataOf(s *world.Survey, name, providerType string) []world.ProviderMetadata {
	if s == nil || s.Contracts == nil {
		return nil
	}
	plain := func(t string) string {
		return strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(t), "-", ""), "provider")
	}
	var out []world.ProviderMetadata
	for _, m := range s.Contracts.Metadata {
		if m.Name == name && plain(m.Type) == plain(providerType) {
			out = append(out, m)
		}
	}
	return out
}

func parse(m world.ProviderMetadata) (*clusterctlv1.Metadata, bool) {
	out := &clusterctlv1.Metadata{}
	if err := yaml.Unmarshal([]byte(m.Text), out); err != nil {
		return nil, false // somebody else's ConfigMap; the labels of the CRDs still speak
	}
	return out, true
}
