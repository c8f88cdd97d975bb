// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// ComponentHealth is the ID of findings about components that are not what the last run made of them, or don't work.
const ComponentHealth = "CAP-COMPONENT-HEALTH"

// ForVerify returns what is looked at after an upgrade, when nothing is to be changed: what would replace Machines later,
// and which Machines were left behind.
func ForVerify() []Check {
	latent := latentRollouts()
	latent.Needs = append(latent.Needs, world.TopicRollouts)
	latent.Run = func(w *world.World, _ *Target) []v1alpha1.Finding { return append(LatentPairs(w), outdated(w)...) }
	return []Check{latent, poolBehind(), clustersAnswer()}
}

// outdated reports control planes whose Machines are not as they want them.
func outdated(w *world.World) []v1alpha1.Finding {
	fleet := w.Survey.FleetOf()
	var out []v1alpha1.Finding
	for i := range w.Clusters {
		c := &w.Clusters[i]
		for _, r := range fleet.Rollouts {
			if r.Cluster != c.Key() || r.Owner.Kind == "MachineDeployment" || r.Owner.Kind == "MachineSet" || r.Owner.Kind == "MachinePool" {
				continue
			}
			why, names := notAsWanted(c, r, fleet.Machines)
			if len(names) == 0 {
				continue
			}
			out = append(out, block(
				fmt.Sprintf("%s of cluster %s replaces %s (%s): %s", r.Owner, c.Key(), machines(int64(len(names))), join(names), strings.Join(why, "; ")),
				fmt.Sprintf("see whether that was asked for: kubectl describe machines -n %s -l cluster.x-k8s.io/cluster-name=%s", c.Namespace, c.Name), r.Owner))
		}
	}
	return out
}

// notAsWanted names the Machines of a control plane that are not as it wants them, and says why.
func notAsWanted(c *world.Cluster, r world.Rollout, states []world.MachineState) (why, names []string) {
	said := map[string]bool{}
	for _, m := range c.Machines {
		if m.Owner.Kind != r.Owner.Kind || m.Owner.Name != r.Owner.Name || m.Deleting {
			continue
		}
		reason := ""
		if r.Version != "" && m.Version != "" && m.Version != r.Version {
			reason = fmt.Sprintf("spec.version is %s and %s is wanted", m.Version, r.Version)
		}
		for _, s := range states {
			if s.UID == m.UID && s.Outdated != "" {
				reason = s.Outdated
			}
		}
		if reason == "" {
			continue
		}
		names = append(names, m.Name)
		if !said[reason] {
			said[reason] = true
			why = append(why, reason)
		}
	}
	return why, names
}
