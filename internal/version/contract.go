// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"slices"
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// contractLabelPrefix begins the labels by which a CRD says which of its versions implement which contract:
// "cluster.x-k8s.io/v1beta2: v1beta1_v1beta2".
const contractLabelPrefix = "cluster.x-k8s.io/"

// Contract returns the Cluster API contract that a provider's version implements, from the provider's metadata.yaml.
// It has no answer when the metadata does not know the version's release series.
func Contract(metadata *clusterctlv1.Metadata, v Version) (contract string, ok bool) {
	if metadata == nil || v.IsZero() {
		return "", false
	}
	series := metadata.GetReleaseSeriesForVersion(v.value)
	if series == nil || series.Contract == "" {
		return "", false
	}
	return series.Contract, true
}

// CompatibleContracts returns the contracts that a core provider of the given contract works with, its own first.
//
// Contracts are not compatible in general. The one exception is that v1beta2 works with v1beta1 until the latter's end
// of life; the rule is GetCompatibleVersions in internal/contract/version.go of Cluster API v1.14.2, which can't be
// imported. It has to be looked at again with each new contract.
func CompatibleContracts(contract string) []string {
	if contract == "v1beta2" {
		return []string{"v1beta2", "v1beta1"}
	}
	return []string{contract}
}

// Contracts returns the contracts of some CRDs' labels, each once, newest first.
func Contracts(labels ...map[string]string) []string {
	var out []string
	for _, l := range labels {
		for _, c := range ContractsOfLabels(l) {
			if !slices.Contains(out, c.Contract) {
				out = append(out, c.Contract)
			}
		}
	}
	slices.SortFunc(out, newestFirst)
	return out
}

// SortContracts puts contracts in order, newest first, each once.
func SortContracts(contracts []string) []string {
	out := slices.Clone(contracts)
	slices.SortFunc(out, newestFirst)
	return slices.Compact(out)
}

// ContractsCompatible tells whether a provider of one contract works under a core provider of another.
func ContractsCompatible(core, provider string) bool {
	return slices.Contains(CompatibleContracts(core), provider)
}

// ContractsOfLabels returns the contracts that a CRD's labels speak of, newest first, each with the API versions that
// implement it. Labels of the same prefix that are no contract, such as cluster.x-k8s.io/provider, are left out.
func ContractsOfLabels(labels map[string]string) []CRDContract {
	var contracts []CRDContract
	for key, value := range labels {
		contract, ok := strings.CutPrefix(key, contractLabelPrefix)
		if !ok || value == "" || !isAPIVersion(contract) {
			continue
		}
		versions := strings.Split(value, "_")
		slices.SortFunc(versions, newestFirst)
		contracts = append(contracts, CRDContract{Contract: contract, Versions: versions})
	}
	slices.SortFunc(contracts, func(a, b CRDContract) int { return newestFirst(a.Contract, b.Contract) })
	return contracts
}

// CRDContract is one contract with the API versions of a CRD that implement it.
type CRDContract struct {
	// Contract is the contract, "v1beta2" for example.
	Contract string
	// Versions are the API versions, newest first.
	Versions []string
}

// NewestAPIVersion returns the newest of some Kubernetes API versions, "" for none: v1 before v1beta2 before v1beta1.
func NewestAPIVersion(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return slices.MinFunc(versions, newestFirst)
}

func newestFirst(a, b string) int { return apiversion.CompareKubeAwareVersionStrings(b, a) }

// isAPIVersion tells whether s looks like v1, v1beta2 or v1alpha3.
func isAPIVersion(s string) bool {
	rest, ok := strings.CutPrefix(s, "v")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}
