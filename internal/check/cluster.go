// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// clusterChecks are about the management cluster itself: its nodes, its policies, and what Capstan may do in it.
func clusterChecks() []Check {
	return []Check{readyNode()}
}

func readyNode() Check {
	return Check{
		ID: "CAP-NODE-READY", Waivable: true,
		Title: "The management cluster has a node to run new controllers on",
		Doc:   "New controllers need a node of the management cluster to run on.",
		Fix:   "Look at the nodes (kubectl get nodes, kubectl describe node NAME) and bring one back, or add one.",
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			if slices.ContainsFunc(w.Management.Nodes, func(n world.Node) bool { return n.Ready }) {
				return nil
			}
			return []v1alpha1.Finding{block(fmt.Sprintf("None of the management cluster's %d nodes is Ready", len(w.Management.Nodes)),
				"kubectl get nodes, and bring one back")}
		},
	}
}
