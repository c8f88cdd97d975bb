// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestC27_BadArgumentsAndInventory gives an upgrade what it can't work with. All is noticed before cert-manager, or
// anything else, is touched.
func TestC27_BadArgumentsAndInventory(t *testing.T) {
	t.Parallel()
	certManager := part{name: "cert-manager", version: "v1.19.0", manifests: configMap("cert-manager", "one")}
	t.Run("no target", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		for _, args := range [][]string{{"upgrade", "--yes"}, {"plan"}, {"upgrade", "", "--yes"}} {
			want(t, b.capstan(t, args...), problem.ExitUsage, "RELEASE")
		}
		want(t, b.capstan(t, "upgrade", "no-such-release", "--yes"), problem.ExitUsage, "no-such-release")
		want(t, b.capstan(t, "upgrade", t.TempDir(), "--yes"), problem.ExitUsage, "release.yaml")
		b.nothingWritten(t)
	})
	t.Run("two core providers", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		core := part{name: "cluster-api", version: "v1.0.0", provider: "CoreProvider", manifests: configMap("core", "one")}
		b.installed(t, core)
		b.apply(t, `
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata: {name: cluster-api, namespace: other, labels: {clusterctl.cluster.x-k8s.io: "", cluster.x-k8s.io/provider: cluster-api}}
providerName: cluster-api
type: CoreProvider
version: v1.0.0
`)
		next := core
		next.version = "v1.1.0"
		both := []string{"CAP-PROVIDER-INSTANCES", "Provider cluster-api-system/cluster-api", "Provider other/cluster-api"}
		b.refused(t, b.capstan(t, "upgrade", writeRelease(t, "v1.1.0", "", certManager, next), "--yes"), both...)
		b.refused(t, b.capstan(t, "upgrade", writeRelease(t, "v1.1.0", "", certManager), "--yes"), both...)
	})
	t.Run("a provider's name with a letter wrong", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		docker := part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider", manifests: configMap("docker", "one")}
		b.installed(t, docker)
		wrong := docker
		wrong.name, wrong.version = "dokcer", "v1.1.0"
		b.refused(t, b.capstan(t, "upgrade", writeRelease(t, "v1.1.0", "", certManager, wrong), "--yes"),
			"CAP-PROVIDER-NAME", `"dokcer"`, "not installed", `did you mean "docker"?`, "docker-system/infrastructure-docker")
		other := docker
		other.name, other.version = "metal3", "v1.1.0"
		want(t, b.capstan(t, "plan", writeRelease(t, "v1.1.0", "", certManager, other)), problem.ExitDone)
	})
	t.Run("a provider's type with a letter wrong", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		wrong := part{name: "docker", version: "v1.0.0", provider: "InfrastuctureProvider", manifests: configMap("docker", "one")}
		want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.1.0", "", certManager, wrong), "--yes"), problem.ExitUsage, "InfrastuctureProvider", "InfrastructureProvider")
		b.nothingWritten(t)
	})
	t.Run("an unknown name among the needs, an unknown flag, an unknown finding", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		needy := certManager
		needy.needs = []string{"no-such"}
		want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.1.0", "", needy), "--yes"), problem.ExitUsage, "no-such")
		good := writeRelease(t, "v1.1.0", "", certManager)
		want(t, b.capstan(t, "upgrade", good, "--yes", "--no-such"), problem.ExitUsage, "no-such")
		want(t, b.capstan(t, "upgrade", good, "--yes", "--accept", "CAP-NO-SUCH=why"), problem.ExitUsage, "CAP-NO-SUCH")
		b.nothingWritten(t)
	})
}

func (b *bed) nothingWritten(t *testing.T) {
	t.Helper()
	if w := b.writes(t); len(w) > 0 {
		t.Errorf("Capstan wrote: %v", w)
	}
}
