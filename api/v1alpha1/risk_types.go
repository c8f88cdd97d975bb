// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// KnownRisk is a combination of versions that is known to be bad, with its public source. It stands when everything under
// when holds and requires does not. Ranges are lists of bounds: ">=1.12.8 <1.13 || >=1.13.2".
type KnownRisk struct {
	// id names the risk; it is stable.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ID string `json:"id"`
	// verdict is Block (the default) or Warn.
	// +optional
	// +kubebuilder:validation:Enum=Block;Warn
	Verdict Verdict `json:"verdict,omitempty"`
	// when says where to look.
	When RiskCondition `json:"when"`
	// requires is what has to hold there as well. Without it, what when describes is the fault itself.
	// +optional
	Requires *RiskCondition `json:"requires,omitempty"`
	// summary says in half a sentence what happens.
	Summary string `json:"summary"`
	// remedy is what can be done beside moving to a good version.
	// +optional
	Remedy string `json:"remedy,omitempty"`
	// sources are public addresses of where this is known from.
	// +kubebuilder:validation:MinItems=1
	Sources []string `json:"sources"`
}

// RiskCondition holds when all that it gives holds. A component that is not there fulfils no condition and owes none.
type RiskCondition struct {
	// component is a component's name in the release, or a provider's name as clusterctl labels it: "control-plane-kubeadm".
	// +optional
	Component string `json:"component,omitempty"`
	// version is the range of the component's version after the upgrade.
	// +optional
	Version string `json:"version,omitempty"`
	// from is the range of the component's version before it, and holds only where the component moves.
	// +optional
	From string `json:"from,omitempty"`
	// kubernetes is the range of a workload cluster's Kubernetes version.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
	// kubernetesFrom is the range of that version before, and holds only where it moves.
	// +optional
	KubernetesFrom string `json:"kubernetesFrom,omitempty"`
	// controlPlane is the kind of the workload cluster's control plane: "KubeadmControlPlane".
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// managementKubernetes is the range of the management cluster's Kubernetes version.
	// +optional
	ManagementKubernetes string `json:"managementKubernetes,omitempty"`
}
