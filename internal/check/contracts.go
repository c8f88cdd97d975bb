// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

func contracts() Check {
	return Check{
		ID: "CAP-CONTRACT", Waivable: true,
		Title: "All providers speak the core provider's contract afterwards",
		Doc:   "Providers talk to Cluster API through a contract version. A provider whose contract the core provider does not know is ignored by it: its clusters stop being reconciled.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			core := coreContract(t)
			if core == "" {
				return nil
			}
			var out []v1alpha1.Finding
			for _, r := range t.Bundle.Components {
				if r.Component.Type != v1alpha1.ComponentProvider || r.Contract == "" || version.ContractsCompatible(core, r.Contract) {
					continue
				}
				out = append(out, block(
					fmt.Sprintf("Component %s %s speaks contract %s, the core provider of the release %s", r.Component.Name, r.Component.Version, r.Contract, core),
					fmt.Sprintf("use a version of %s that speaks %s", r.Component.Name, core)))
			}
			return out
		},
	}
}

func coreContract(t *Target) string {
	for _, r := range t.Bundle.Components {
		if p := r.Component.Provider; p != nil && p.Type == string(clusterctlv1.CoreProviderType) {
			return r.Contract
		}
	}
	return ""
}
