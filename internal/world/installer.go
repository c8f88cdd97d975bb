// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

// InstallerManagers returns the field managers of tools that install what Capstan upgrades, sorted. The fields they own
// by Update would outlive a server-side apply that no longer has them, so ownership has to move to Capstan first.
//
// Controllers that fill in fields afterwards, cainjector for caBundle or kube-controller-manager for annotations, are
// not installers and must never be listed: taking their fields would make the two write against each other. "manager",
// the name nearly every controller built with kubebuilder has, is left out for the same reason.
func InstallerManagers() []string {
	return []string{
		"clusterctl",
		"helm",
		"kubectl-client-side-apply",
		"kubectl-create",
		"kubectl-replace",
	}
}
