// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestMatrixOfContractsIsShownWhereSomethingIsToBeSaid(t *testing.T) {
	t.Parallel()
	p := &Plan{Spec: &v1alpha1.PlanSpec{Contracts: []v1alpha1.ProviderContracts{
		{Provider: "cluster-api", Version: "v1.12.0", Contracts: []string{"v1beta2", "v1beta1"}, Source: "core-metadata.yaml"},
		{Provider: "infrastructure-x", Version: "v0.9.0", Contracts: []string{"v1beta1"}, Source: "ConfigMap a/b", Stays: true},
		{Provider: "addon-y", Version: "v0.1.0", Stays: true},
	}}}
	if got := p.contracts(); got != "" {
		t.Errorf("shown without a finding:\n%s", got)
	}
	p.Spec.Findings = []v1alpha1.Finding{{ID: "CAP-CONTRACT", Verdict: v1alpha1.VerdictWarn}}
	want := `
Contracts that each provider will speak; for the core provider, those it will work with
PROVIDER          VERSION  v1beta1  v1beta2  KNOWN FROM
cluster-api       v1.12.0  yes      yes      core-metadata.yaml
infrastructure-x  v0.9.0   yes      -        ConfigMap a/b
addon-y           v0.1.0   ?        ?        -
`
	if diff := cmp.Diff(p.contracts(), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}
