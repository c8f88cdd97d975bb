// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

// providerPart is a provider that consists of one ConfigMap.
func providerPart(name, kind, version, more string) part {
	p := part{name: name, version: version, provider: kind, more: more}
	p.manifests = fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %[1]s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[2]s, namespace: %[1]s}\ndata: {version: %[3]s}\n",
		p.namespace(), name, version)
	return p
}

// selfHostedBed has a cluster "self" whose first control plane Machine is the bed's node.
func selfHostedBed(t *testing.T) *bed {
	t.Helper()
	b := withClusters(t, "self", "other")
	b.apply(t, "apiVersion: v1\nkind: Node\nmetadata: {name: self-cp-0}\nspec: {providerID: 'demo://self-cp-0'}\n")
	return b
}

func TestC02_ManagementKubernetesAboveItsProviders(t *testing.T) {
	t.Parallel()
	b := selfHostedBed(t)
	const supports = "kubernetes: {management: {min: v1.33, max: v1.36}}"
	core := providerPart("cluster-api", "CoreProvider", "v1.50.0", supports)
	want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.0.0", "", core), "--yes"), problem.ExitDone, "CAP-SELF-HOSTED", "Cluster fleet/self")
	made := len(b.writes(t))

	t.Run("within what is supported", func(t *testing.T) {
		r := b.capstan(t, "plan", writeRelease(t, "v1.0.1", "", providerPart("cluster-api", "CoreProvider", "v1.50.1", supports)))
		want(t, r, problem.ExitDone)
		lacks(t, r, "CAP-SELF-HOSTED-KUBERNETES")
	})
	cp := b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "self-cp")
	b.patch(t, cp, `{"spec":{"version":"v1.37.0"}}`)
	for name, tc := range map[string]struct {
		release string
	}{
		"a release that supports no more": {writeRelease(t, "v1.0.1", "", providerPart("cluster-api", "CoreProvider", "v1.50.1", supports))},
		"a release that does not say":     {writeRelease(t, "v1.0.1", "", providerPart("cluster-api", "CoreProvider", "v1.50.1", ""))},
		"a release that would support it": {writeRelease(t, "v1.1.0", "", providerPart("cluster-api", "CoreProvider", "v1.51.0", "kubernetes: {management: {max: v1.37}}"))},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.capstan(t, "plan", tc.release)
			want(t, r, problem.ExitBlocked, "CAP-SELF-HOSTED-KUBERNETES", "Cluster fleet/self", "cluster-api v1.50.0", "up to v1.36", "v1.37.0", "providers first, then Kubernetes")
			lacks(t, r, "Cluster fleet/other")
		})
	}
	t.Run("another cluster may have it", func(t *testing.T) {
		b.patch(t, cp, `{"spec":{"version":"v1.35.0"}}`)
		b.patch(t, b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "other-cp"), `{"spec":{"version":"v1.37.0"}}`)
		r := b.capstan(t, "plan", writeRelease(t, "v1.0.1", "", providerPart("cluster-api", "CoreProvider", "v1.50.1", "")))
		lacks(t, r, "CAP-SELF-HOSTED-KUBERNETES")
	})
	if w := b.writes(t); len(w) != made {
		t.Errorf("Capstan wrote although it refused: %v", w[made:])
	}
}

// TestC02_ByTheTable is an installation that clusterctl made: what it supports is known from Cluster API's own table.
func TestC02_ByTheTable(t *testing.T) {
	t.Parallel()
	b := selfHostedBed(t)
	core := providerPart("cluster-api", "CoreProvider", "v1.13.4", "")
	b.installed(t, core)
	b.patch(t, b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "self-cp"), `{"spec":{"version":"v1.37.0"}}`)
	b.refused(t, b.capstan(t, "plan", settingsRelease(t, "v1.0.0")), "CAP-SELF-HOSTED-KUBERNETES", "cluster-api v1.13.4", "up to v1.36")
}

// TestC02_ByItsAPIServer is a self-hosted cluster whose nodes say nothing: its kubeconfig leads to the management cluster.
func TestC02_ByItsAPIServer(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "self")
	b.installed(t, providerPart("cluster-api", "CoreProvider", "v1.13.4", ""))
	b.apply(t, b.ownKubeconfig(t, "self"))
	b.patch(t, b.get(t, planeAPI, "KubeadmControlPlane", "fleet", "self-cp"), `{"spec":{"version":"v1.37.0"}}`)
	b.refused(t, b.capstan(t, "plan", settingsRelease(t, "v1.0.0")), "CAP-SELF-HOSTED-KUBERNETES", "kube-system")
}
