// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package knowledge

import (
	_ "embed" // the table is part of the binary
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/version"
)

//go:embed management.yaml
var managementTable []byte

type managementFile struct {
	// Providers are the providers that the table is for, as clusterctl labels them.
	Providers []string `json:"providers"`
	// Management has the highest Kubernetes minor for each minor of the providers, the highest first.
	Management []struct {
		Minor string `json:"minor"`
		Max   string `json:"max"`
		From  string `json:"from,omitempty"`
	} `json:"management"`
}

// ManagementMax returns the highest Kubernetes minor on which a management cluster is known to work with a version of a
// provider, as clusterctl labels it: "v1.36". It is empty for what nobody wrote down.
func ManagementMax(provider, providerVersion string) (string, error) {
	var f managementFile
	if err := yaml.UnmarshalStrict(managementTable, &f); err != nil {
		return "", fmt.Errorf("read management.yaml: %w", err)
	}
	v, err := version.Parse(providerVersion)
	if err != nil || !slices.Contains(f.Providers, provider) {
		return "", nil //nolint:nilerr // nothing is known of a version that is none
	}
	for _, row := range f.Management {
		minor, err := version.Parse(row.Minor + ".0")
		if err != nil {
			return "", fmt.Errorf("read management.yaml: %w", err)
		}
		if minor.Major() != v.Major() || minor.Minor() != v.Minor() {
			continue
		}
		if row.From == "" {
			return row.Max, nil
		}
		if order, err := version.Compare(providerVersion, row.From); err == nil && order >= 0 {
			return row.Max, nil
		}
	}
	return "", nil
}
