// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
)

const (
	// tenants is how many namespaces the Clusters are spread over.
	tenants = 20
	// secondPool and thirdPool are from how many workers on a cluster has two or three MachineDeployments.
	secondPool, thirdPool = 8, 20
	// threeControlPlanes is from how many Machines on a cluster's control plane is redundant.
	threeControlPlanes = 5
)

// Size is how big the management cluster is to look.
type Size struct {
	// CRDs is the number of extra CRDs, of groups that nobody else uses.
	CRDs int
	// Clusters and Machines are the size of the fleet; every Cluster has at least one Machine.
	Clusters, Machines int
	// Parts asks for the infrastructure machine and the bootstrap configuration of each Machine too.
	Parts bool
}

// Validate tells whether there is such a fleet.
func (s Size) Validate() error {
	switch {
	case s.CRDs < 0 || s.Clusters < 0 || s.Machines < 0:
		return errors.New("numbers can't be negative")
	case s.Machines < s.Clusters:
		return fmt.Errorf("%d Machines are too few for %d Clusters: each has a control plane", s.Machines, s.Clusters)
	case s.Clusters == 0 && s.Machines > 0:
		return errors.New("there is no Cluster for the Machines to belong to")
	}
	return nil
}

// shape is one Cluster's size and place.
type shape struct {
	index         int
	controlPlanes int
	// pools are the replicas of its MachineDeployments.
	pools []int
}

// shapes spreads the Machines over the Clusters: most are small, one in ten is big.
func (s Size) shapes() []shape {
	weights := []int{1, 1, 2, 1, 3, 1, 2, 1, 1, 5}
	total := 0
	for i := range s.Clusters {
		total += weights[i%len(weights)]
	}
	out := make([]shape, 0, s.Clusters)
	rest, before, given := s.Machines-s.Clusters, 0, 0
	for i := range s.Clusters {
		before += weights[i%len(weights)]
		upTo := rest * before / total
		out = append(out, shapeOf(i, 1+upTo-given))
		given = upTo
	}
	return out
}

func shapeOf(index, machines int) shape {
	s := shape{index: index, controlPlanes: 1}
	if machines >= threeControlPlanes {
		s.controlPlanes = 3
	}
	workers := machines - s.controlPlanes
	pools := 1
	switch {
	case workers == 0:
		pools = 0
	case workers >= thirdPool:
		pools = 3
	case workers >= secondPool:
		pools = 2
	}
	for i := range pools {
		s.pools = append(s.pools, workers*(i+1)/pools-workers*i/pools)
	}
	return s
}

func (s shape) namespace() string { return namespaceName(s.index % tenants) }

func namespaceName(i int) string { return fmt.Sprintf("load-%02d", i) }

func (s shape) name() string { return fmt.Sprintf("load-%04d", s.index) }

// version is the Cluster's Kubernetes version: a fleet is never all at one.
func (s shape) version() string {
	versions := []string{"v1.35.4", "v1.36.3", "v1.35.4", "v1.34.7", "v1.36.1"}
	return versions[s.index%len(versions)]
}
