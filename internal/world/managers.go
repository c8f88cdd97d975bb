// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Manager says who stands behind a field manager's name: it decides whose fields Capstan takes over, whose it respects,
// and whose it writes over.
type Manager string

const (
	// ManagerCapstan is Capstan's own server-side apply.
	ManagerCapstan Manager = "Capstan"
	// ManagerInstaller is a tool that put a whole manifest there before us. Capstan takes its fields over, so that what
	// the old manifest had and the new one has not is removed.
	ManagerInstaller Manager = "Installer"
	// ManagerPerson is a person at a terminal or a console who changed single fields.
	ManagerPerson Manager = "Person"
	// ManagerController is everything else: programs that write on their own. Their fields are left to them where the
	// manifest says nothing about them, and written over where it does.
	ManagerController Manager = "Controller"
)

// Installers are the field managers (with operation Update) whose fields Capstan takes over, sorted.
//
// The list is closed on purpose: a name that is missing here costs a leftover field, a controller that is here by mistake
// loses its own (cainjector its caBundle, for example).
func Installers() []string {
	return []string{
		"Helm",
		"before-first-apply",
		"clusterctl",
		"helm",
		"kubectl-client-side-apply",
		"kubectl-create",
	}
}

// ManagerOf says who stands behind an entry of managedFields.
//
// Persons are recognised by the tools they use: every kubectl verb but the two that put whole manifests there, and the
// usual consoles. A tool that is not known counts as a controller, because the other error would be worse: a program that
// keeps an old image in place would pass for a repair, and the upgrade would keep it.
func ManagerOf(name string, operation metav1.ManagedFieldsOperationType) Manager {
	if name == v1alpha1.FieldOwner {
		return ManagerCapstan
	}
	if operation == metav1.ManagedFieldsOperationUpdate && slices.Contains(Installers(), name) {
		return ManagerInstaller
	}
	if strings.HasPrefix(name, "kubectl") && !slices.Contains(Installers(), name) {
		return ManagerPerson
	}
	switch name {
	case "k9s", "oc", "Lens", "OpenLens", "freelens", "node-fetch", "headlamp-server", "dashboard-api", "Mozilla", "curl":
		return ManagerPerson
	}
	return ManagerController
}
