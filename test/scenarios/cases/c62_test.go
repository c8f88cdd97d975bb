// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC62_EvenNumberOfStackedEtcdMembers(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	workers := func(name string) pool { return pool{name: name, version: "v1.33.4", replicas: 1} }
	b.fleetCluster(t, "four", "", controlPlane{version: "v1.33.4", replicas: 4}, workers("four-w"))
	b.fleetCluster(t, "two", "", controlPlane{version: "v1.33.4", replicas: 2}, workers("two-w"))
	b.fleetCluster(t, "external", "", controlPlane{
		version: "v1.33.4", replicas: 4,
		config: "etcd: {external: {endpoints: [https://10.0.0.1:2379], caFile: /a, certFile: /b, keyFile: /c}}\n",
	}, workers("external-w"))
	b.fleetCluster(t, "surge", "", controlPlane{version: "v1.33.4", replicas: 1, more: "rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}\n"}, workers("surge-w"))
	b.fleetCluster(t, "five", "", controlPlane{version: "v1.33.4", replicas: 5}, workers("five-w"))

	t.Run("four members", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "four", "--version", "v1.34.1", "--with-control-plane"),
			"CAP-ETCD-QUORUM", "KubeadmControlPlane default/four-cp", "asks for 4 replicas", "3 and 5")
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "four"), "CAP-ETCD-QUORUM")
	})
	t.Run("two members", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "two"), "CAP-ETCD-QUORUM", "asks for 2 replicas", "1 and 3")
	})
	t.Run("one member and no surge", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "surge"), "CAP-ETCD-QUORUM", "maxSurge 0", "surge-cp")
	})
	t.Run("an external etcd and an odd number", func(t *testing.T) {
		want(t, b.capstan(t, "nodes", "plan", "--cluster", "external", "--version", "v1.34.1", "--with-control-plane"), problem.ExitDone)
		want(t, b.capstan(t, "nodes", "plan", "--cluster", "five", "--version", "v1.34.1", "--with-control-plane"), problem.ExitDone)
	})
}
