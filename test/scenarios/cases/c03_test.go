// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC03_ManagementClusterTooOldForTheTarget(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	tool := func(name, low string) part {
		p := part{name: name, version: "v1.1.0", manifests: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\n"}
		if low != "" {
			p.more = "kubernetes: {management: {min: " + low + "}}"
		}
		return p
	}
	have := b.kubernetes(t)

	dir := writeRelease(t, "v1.1.0", "kubernetes: {management: {min: v1.30.0}}", tool("first", ""), tool("second", "v1.97"), tool("third", "v1.98.2"))
	said := []string{"CAP-KUBERNETES-RANGE", "Kubernetes " + have + " of the management cluster is too old for component third v1.1.0", "needs at least v1.98.2", "component second v1.1.0 (v1.97 or higher)"}
	r := b.capstan(t, "plan", dir)
	b.refused(t, r, said...)
	lacks(t, r, "component first")
	b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), said...)

	whole := writeRelease(t, "v1.1.0", "kubernetes: {management: {min: v1.98}}", tool("first", ""))
	b.refused(t, b.capstan(t, "plan", whole), "too old for release v1.1.0, which needs at least v1.98.0")

	fitting := writeRelease(t, "v1.1.0", "kubernetes: {management: {min: v1.30.0}}", tool("first", have), tool("second", "v1.31"))
	want(t, b.capstan(t, "plan", fitting), problem.ExitDone)
}

func TestC03_WorkloadClustersOutsideTheRangeOfOneComponent(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	b.kubeadmCluster(t, "team-a", "old", "v1.29.4")
	b.kubeadmCluster(t, "team-a", "fine", "v1.34.6")
	p := kubeadmProvider("v1.14.2")
	p.more = "kubernetes: {workload: {min: v1.31, max: v1.36}}"
	r := b.capstan(t, "plan", writeRelease(t, "v1.1.0", "", p))
	b.refused(t, r, "CAP-KUBERNETES-RANGE", "Kubernetes v1.29.4 of cluster team-a/old is too old for component kubeadm v1.14.2, which needs at least v1.31.0")
	lacks(t, r, "team-a/fine")
}

// kubernetes is the version of the bed's API server.
func (b *bed) kubernetes(t *testing.T) string {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(b.Config)
	if err != nil {
		t.Fatal(err)
	}
	v, err := disco.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return v.GitVersion
}
