// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// fleetChecks are about the workload clusters, before the platform under them moves.
func fleetChecks() []Check {
	return []Check{fleetAtRest()}
}

func fleetAtRest() Check {
	return Check{
		ID: "CAP-FLEET-MOVING", Waivable: true,
		Title: "The fleet is at rest while controllers are swapped",
		Doc:   "Machines that are being deleted or scaled while controllers are swapped make it hard to tell a change that was asked for from one that the upgrade caused.",
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for i := range w.Clusters {
				c := &w.Clusters[i]
				deleting := 0
				for _, m := range c.Machines {
					if m.Deleting {
						deleting++
					}
				}
				if deleting > 0 {
					out = append(out, warn(fmt.Sprintf("Cluster %s has %d Machines that are being deleted", c.Key(), deleting),
						fmt.Sprintf("wait until they are gone: kubectl get machines -n %s", c.Namespace)))
				}
			}
			return out
		},
	}
}
