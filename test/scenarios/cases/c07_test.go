// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC07_WorkersNewerThanTheirControlPlane(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	b.fleetCluster(t, "raised", "", controlPlane{version: "v1.33.4"}, pool{name: "raised-w", version: "v1.34.1", replicas: 1})
	b.fleetCluster(t, "older", "", controlPlane{version: "v1.33.4"}, pool{name: "older-w", version: "v1.32.9", replicas: 1})
	b.fleetCluster(t, "even", "", controlPlane{version: "v1.33.4"}, pool{name: "even-w", version: "v1.33.4", replicas: 2})
	b.fleetCluster(t, "far", "", controlPlane{version: "v1.36.1"}, pool{name: "far-w", version: "v1.32.9", replicas: 2})

	t.Run("a pool that was raised before its control plane", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "raised"),
			"CAP-VERSION-SKEW", "MachineDeployment default/raised-w", "v1.34.1", "KubeadmControlPlane default/raised-cp at v1.33.4", "control plane first",
			"capstan nodes plan -n default --cluster raised --version v1.34.1 --with-control-plane")
	})
	t.Run("a pool that is asked to go first", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--version", "v1.34.1", "-l", "of=even"),
			"CAP-VERSION-SKEW", "MachineDeployment default/even-w", "v1.34.1", "v1.33.4", "first KubeadmControlPlane default/even-cp, then MachineDeployment default/even-w")
	})
	t.Run("a new machine of an older pool", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "older"),
			"CAP-VERSION-SKEW", "MachineDeployment default/older-w", "v1.32.9", "v1.33.4", "kubeadm joins only to its own minor version")
	})
	t.Run("a control plane that jumps two minors", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "even", "--version", "v1.35.0", "--with-control-plane"),
			"CAP-VERSION-SKEW", "KubeadmControlPlane default/even-cp", "would jump from v1.33.4 to v1.35.0", "v1.34")
	})
	t.Run("a control plane that goes back", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "even", "--version", "v1.32.9", "--with-control-plane"), "CAP-VERSION-SKEW", "go back")
	})
	t.Run("a pool beyond the kubelet's skew", func(t *testing.T) {
		b.refused(t, b.capstan(t, "nodes", "plan", "--cluster", "far"), "CAP-VERSION-SKEW", "more than 3 minor versions older")
	})
	t.Run("with the control plane it is two stages in order", func(t *testing.T) {
		r := b.capstan(t, "nodes", "plan", "--cluster", "even", "--version", "v1.34.1", "--with-control-plane")
		want(t, r, problem.ExitDone, "Stage 1 of 2: control planes", "Stage 2 of 2: workers", "even-cp", "even-w")
		if strings.Index(r.stdout, "control planes\n") > strings.Index(r.stdout, "workers\n") {
			t.Error("workers come before control planes")
		}
		want(t, b.capstan(t, "nodes", "plan", "-o", "json", "--cluster", "even", "--version", "v1.34.1", "--with-control-plane"), problem.ExitDone,
			`"kind": "NodePlan"`, `"name": "control planes"`, `"to": "v1.34.1"`)
	})
	t.Run("a roll at the same version", func(t *testing.T) {
		want(t, b.capstan(t, "nodes", "plan", "--cluster", "even"), problem.ExitDone, "2 Machines of 1 owner in 1 cluster could be rolled")
	})
	t.Run("clusters that are not there", func(t *testing.T) {
		want(t, b.capstan(t, "nodes", "plan", "--cluster", "typo"), problem.ExitUsage, "None of the 4 workload clusters is chosen")
	})
	if w := b.writes(t); len(w) > 0 {
		t.Errorf("Capstan wrote: %v", w)
	}
}
