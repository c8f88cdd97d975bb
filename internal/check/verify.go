// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// UndoneStep is a step of the last completed run that is not where the run left it.
type UndoneStep struct {
	// Component is the component's name, Step the step's ID.
	Component, Step string
	// Detail says in one line what is missing.
	Detail string
	// Causes name what is wrong.
	Causes []world.Cause
}

// ForVerify returns what is looked at after an upgrade, when nothing is to be changed: components that don't work, what
// would replace Machines later, and which Machines were left behind.
func ForVerify() []Check {
	latent := latentRollouts()
	latent.Needs = append(latent.Needs, world.TopicRollouts)
	latent.Run = func(w *world.World, _ *Target) []v1alpha1.Finding { return append(LatentPairs(w), outdated(w)...) }
	return []Check{componentHealth(), latent, poolBehind(), clustersAnswer()}
}

func componentHealth() Check {
	return Check{
		ID: "CAP-COMPONENT-HEALTH", Scope: Verify,
		Title: "Every component is as the last run left it, and works",
		Doc: "A Deployment that is Available may hide new Pods that never start, and objects may have been changed since. `capstan verify` looks at every object " +
			"of every component as a run does before it calls it done: in sync, all replicas updated and available, one leading, webhooks and conversions answering a real call.",
		Fix: "Repair what the finding names by hand, or apply the release again with `capstan upgrade`.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, u := range t.Undone {
				f := block(fmt.Sprintf("Component %s is not as the last run left it (%s): %s", u.Component, u.Step, u.Detail),
					"repair it by hand, or apply the release again with `capstan upgrade`")
				for _, c := range u.Causes {
					f.Objects = append(f.Objects, v1alpha1.ObjectReference(c.Object))
				}
				if len(u.Causes) > 0 && u.Causes[0].Remedy != "" {
					f.Remedy = u.Causes[0].Remedy
				}
				out = append(out, f)
			}
			return out
		},
	}
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
				fmt.Sprintf("%s of cluster %s replaces %s (%s): %s", r.Owner, c.Key(), phrase.Count(len(names), "Machine"), phrase.Some(names), strings.Join(why, "; ")),
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
