// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package knowledge_test

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/knowledge"
)

func TestManagementMax(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ provider, version, want string }{
		"a patch that brought support":         {"cluster-api", "v1.14.2", "v1.37"},
		"the patch before":                     {"cluster-api", "v1.14.0", "v1.36"},
		"the kubeadm control plane":            {"control-plane-kubeadm", "v1.13.4", "v1.36"},
		"a minor with two patches of support":  {"bootstrap-kubeadm", "v1.12.7", "v1.35"},
		"a provider that nobody wrote down":    {"infrastructure-aws", "v2.9.0", ""},
		"a release that came after the table":  {"cluster-api", "v1.99.0", ""},
		"something that is no version":         {"cluster-api", "main", ""},
		"a pre-release is not the patch of it": {"cluster-api", "v1.13.1-rc.0", "v1.35"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := knowledge.ManagementMax(tc.provider, tc.version)
			if err != nil || got != tc.want {
				t.Errorf("ManagementMax(%s, %s) = %q, %v, want %q", tc.provider, tc.version, got, err, tc.want)
			}
		})
	}
}
