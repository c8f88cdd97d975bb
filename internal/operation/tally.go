// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/engine"
	"github.com/capstan-dev/capstan/internal/world"
)

// tally adds the calls that earlier processes of the run made to those of this one, so that the proof covers the whole
// run and not its last part.
type tally struct {
	before *v1alpha1.FenceStatus
	now    engine.Prober
}

// Snapshot returns the sums.
func (t *tally) Snapshot() []world.Probe {
	probes := t.now.Snapshot()
	if t.before == nil {
		return probes
	}
	for _, old := range t.before.Probes {
		found := false
		for i := range probes {
			if probes[i].Cluster != old.Cluster {
				continue
			}
			found = true
			probes[i].Total += old.Total
			probes[i].Failed += old.Failed
			probes[i].LongestGap = max(probes[i].LongestGap, old.LongestGap.Duration)
			probes[i].Earlier = old.Gaps
		}
		if !found {
			probes = append(probes, world.Probe{Cluster: old.Cluster, Total: old.Total, Failed: old.Failed, LongestGap: old.LongestGap.Duration, Earlier: old.Gaps})
		}
	}
	return probes
}
