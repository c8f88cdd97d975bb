// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/world"
)

// machineTime is how long the replacement of one Machine is expected to take where no run has measured it: a server that is
// cleaned, written and booted.
const machineTime = 15 * time.Minute

// NodesInput is all that a plan for nodes depends on.
type NodesInput struct {
	// Image is what the nodes are rolled to.
	Image *v1alpha1.NodeImage
	// Pools are what is rolled, those of one cluster behind each other.
	Pools []v1alpha1.PlannedPool
	// Findings are what the checks found.
	Findings []v1alpha1.Finding
	// World is the fleet.
	World *world.World
	// Past are the runs of before, newest first.
	Past []v1alpha1.Upgrade
	// Together is how many clusters are rolled at once, at least 1.
	Together int
}

// ComputeNodes makes the plan of a roll.
func ComputeNodes(in NodesInput) (*v1alpha1.PlanSpec, error) {
	digest, err := imageDigest(in.Image)
	if err != nil {
		return nil, err
	}
	spec := &v1alpha1.PlanSpec{
		Kind:    v1alpha1.PlanNodes,
		Release: v1alpha1.ReleaseReference{Name: in.Image.Name, Version: in.Image.Name, Digest: digest},
		Base:    base(Input{World: in.World, Past: in.Past}), Pools: lanes(in.Pools, in.Together), Findings: in.Findings,
	}
	spec.Steps = nodes.Planned(spec.Pools)
	for i := range spec.Pools {
		spec.Forecast.MachinesReplaced += int32(spec.Pools[i].Replicas)
	}
	each, basis := machineTook(in.Past)
	spec.Forecast.Duration = metav1.Duration{Duration: longest(spec.Pools, each)}
	spec.Forecast.Basis = basis
	return spec, seal(spec)
}

// SameImage tells whether a plan is a roll to the very image. A nil plan is none.
func SameImage(spec *v1alpha1.PlanSpec, image *v1alpha1.NodeImage) (bool, error) {
	if spec == nil {
		return false, nil
	}
	digest, err := imageDigest(image)
	return err == nil && spec.Release.Name == image.Name && spec.Release.Digest == digest, err
}

func imageDigest(image *v1alpha1.NodeImage) (string, error) {
	data, err := json.Marshal(image.Spec)
	if err != nil {
		return "", fmt.Errorf("digest image %s: %w", image.Name, err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// lanes lets so many clusters be rolled at once: the first pool of each later cluster comes after the last one of the
// cluster that many before it.
func lanes(pools []v1alpha1.PlannedPool, together int) []v1alpha1.PlannedPool {
	out := slices.Clone(pools)
	var clusters []string
	first, last := map[string]int{}, map[string]int{}
	for i := range out {
		c := out[i].Cluster
		if _, seen := first[c]; !seen {
			clusters, first[c] = append(clusters, c), i
		}
		last[c] = i
	}
	for n, c := range clusters {
		if n < together {
			continue
		}
		p := &out[first[c]]
		p.Needs = append(slices.Clone(p.Needs), nodes.Key(out[last[clusters[n-together]]].Owner))
	}
	return out
}

// longest is the time of the longest chain of pools.
func longest(pools []v1alpha1.PlannedPool, each time.Duration) time.Duration {
	ends := map[string]time.Duration{}
	var end time.Duration
	for i := range pools {
		p := &pools[i]
		var begin time.Duration
		for _, n := range p.Needs {
			begin = max(begin, ends[n])
		}
		ends[nodes.Key(p.Owner)] = begin + time.Duration(p.Replicas)*each
		end = max(end, ends[nodes.Key(p.Owner)])
	}
	return end
}

// machineTook is how long the newest completed roll took for a Machine.
func machineTook(past []v1alpha1.Upgrade) (time.Duration, string) {
	for i := range past {
		u := &past[i]
		if u.Spec.Kind != v1alpha1.PlanNodes || !completed(u) || u.Spec.Machines == 0 || u.Status.StartedAt == nil || u.Status.FinishedAt == nil {
			continue
		}
		each := (u.Status.FinishedAt.Sub(u.Status.StartedAt.Time) / time.Duration(u.Spec.Machines)).Round(time.Second)
		return each, fmt.Sprintf("run %s took %s a Machine", u.Name, each)
	}
	return machineTime, fmt.Sprintf("default: %s a Machine, one after the other in a pool", machineTime)
}
