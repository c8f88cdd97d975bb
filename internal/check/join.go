// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// joinsReadAnew is the first release that takes a configuration without the section for the first Machine's.
	joinsReadAnew = "v1.12.0"
	// joinsByArguments is a release that knows a joined Machine by its kubelet's arguments as well.
	joinsByArguments = "v1.14.2"
)

func joinConfigurations() Check {
	return Check{
		ID: "CAP-JOIN-CONFIGURATION", Waivable: true, Needs: []world.Topic{world.TopicJoins},
		Title: "Every control plane Machine that joined is configured as one",
		Doc: "A write that failed half-way when a Machine was made, months ago, left its KubeadmConfig without spec.joinConfiguration.controlPlane. From 1.12 on the " +
			"kubeadm control plane provider takes such a configuration for that of a cluster's first Machine, finds that it differs from what it wants, and replaces the Machine. " +
			"1.14.2 and later know it by spec.joinConfiguration.nodeRegistration.kubeletExtraArgs as well, where that is set.",
		Fix:     "Put the missing section into the KubeadmConfig before the upgrade; nothing reads it again but this comparison. Or accept that the Machine is replaced.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/pull/14167"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			reader, moves := kubeadmReader(w, t)
			var out []v1alpha1.Finding
			for _, j := range w.Survey.FleetOf().Joins {
				if j.Owner.Kind != "KubeadmControlPlane" || reads(reader, j) {
					continue
				}
				verdict := block
				if !moves {
					verdict = warn
				}
				out = append(out, verdict(
					fmt.Sprintf("Machine %s/%s of cluster %s would be replaced: its %s lacks spec.joinConfiguration.controlPlane although it joined",
						j.Config.Namespace, j.Machine, j.Cluster, j.Config),
					fmt.Sprintf("kubectl patch kubeadmconfig -n %s %s --type merge -p '{\"spec\":{\"joinConfiguration\":{\"controlPlane\":{}}}}'", j.Config.Namespace, j.Config.Name),
					j.Config, world.Ref{APIVersion: "cluster.x-k8s.io", Kind: "Machine", Namespace: j.Config.Namespace, Name: j.Machine}, j.Owner))
			}
			return out
		},
	}
}

// reads tells that a version of the kubeadm control plane provider knows a joined Machine when it sees this.
func reads(reader string, j world.Join) bool {
	before, err := version.Compare(reader, joinsReadAnew)
	if err != nil {
		return false
	}
	fixed, err := version.Compare(reader, joinsByArguments)
	return before < 0 || err == nil && fixed >= 0 && j.Arguments
}

// kubeadmReader returns the version of the kubeadm control plane provider after the upgrade, empty if it is not known, and
// whether anything moves that may make it look anew.
func kubeadmReader(w *world.World, t *Target) (reader string, moves bool) {
	for _, p := range w.Management.Providers {
		if p.ManifestLabel == "control-plane-kubeadm" {
			reader = p.Version
		}
	}
	for _, c := range t.Components {
		if c.Provider != nil && c.Provider.Type == "ControlPlaneProvider" && c.Provider.Name == "kubeadm" {
			reader = c.To
		}
	}
	moves = slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool {
		switch {
		case c.Action == v1alpha1.ActionNone || c.Name == release.CertManager:
			return false
		case c.Provider == nil:
			return true // a chart or a manifest may hold any controller
		}
		return c.Provider.Name == "kubeadm" || c.Provider.Type == "CoreProvider"
	})
	return reader, moves
}
