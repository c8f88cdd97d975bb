// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// managed is a provider whose bindings the platform team manages: the release has a role that it binds to nobody.
const managed = `
apiVersion: v1
kind: Namespace
metadata: {name: core-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: core-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: core-manager}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, patch]}
- {apiGroups: [ipam.cluster.x-k8s.io], resources: [ipaddresses], verbs: [list]}
- {apiGroups: [""], resources: [configmaps], verbs: [get]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: core-system}
spec:
  selector: {matchLabels: {app: core}}
  template:
    metadata: {labels: {app: core}}
    spec:
      serviceAccountName: manager
      containers: [{name: manager, image: "registry.example.com/core:v1", args: [--leader-elect]}]
`

// customRole is what the platform team gives: too little.
const customRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: custom}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list]}
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: custom}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: custom}
subjects: [{kind: ServiceAccount, name: manager, namespace: core-system}]
`

// TestC83_ControllerLacksRights plans a version whose role needs more than the one that the platform team manages.
func TestC83_ControllerLacksRights(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.apply(t, managed)
	b.apply(t, customRole)
	dir := writeRelease(t, "v1.0.0", "", part{name: "core", version: "v1.0.0", manifests: managed})
	const account = "ServiceAccount core-system/manager"
	b.refused(t, b.capstan(t, "plan", dir), "CAP-ACCESS-CONTROLLER", account, "patch customresourcedefinitions.apiextensions.k8s.io", "list ipaddresses.ipam.cluster.x-k8s.io",
		"--serviceaccount=core-system:manager")
	lacks(t, b.capstan(t, "plan", dir), "configmaps", "/metrics")

	t.Run("the account is missing as well", func(t *testing.T) {
		at := strings.Index(managed, "---\napiVersion: v1\nkind: ServiceAccount")
		without := managed[:at] + managed[at+strings.Index(managed[at+4:], "---\n")+4:]
		other := writeRelease(t, "v1.0.0", "", part{name: "core", version: "v1.0.0", manifests: strings.ReplaceAll(without, "serviceAccountName: manager", "serviceAccountName: other")})
		b.refused(t, b.capstan(t, "plan", other), "ServiceAccount core-system/other", "does not exist")
	})
	t.Run("bound by the release itself nothing is asked", func(t *testing.T) {
		bound := managed + "---" + strings.SplitN(strings.ReplaceAll(customRole, "name: custom", "name: core-manager"), "---", 2)[1]
		own := writeRelease(t, "v1.0.0", "", part{name: "core", version: "v1.0.0", manifests: bound})
		want(t, b.capstan(t, "plan", own), problem.ExitDone)
	})
	t.Run("given what it needs", func(t *testing.T) {
		b.apply(t, strings.ReplaceAll(customRole, "verbs: [get, list]}", "verbs: [get, list, patch]}\n- {apiGroups: [ipam.cluster.x-k8s.io], resources: [ipaddresses], verbs: [\"*\"]}"))
		want(t, b.capstan(t, "plan", dir), problem.ExitDone)
	})
}

// TestC83_CapstanLacksRights plans as a user that may read everything and change nothing, or not enough.
func TestC83_CapstanLacksRights(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.apply(t, managed)
	dir := writeRelease(t, "v1.1.0", "", part{name: "core", version: "v1.1.0", manifests: strings.ReplaceAll(managed, "core:v1", "core:v2")})
	b.apply(t, rights("reader", `- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}`))
	b.as(t, "reader", func() {
		r := b.capstan(t, "plan", dir)
		b.refused(t, r, "CAP-ACCESS", "reader may not", "patch", "deployments.apps in namespace core-system", "upgrades.capstan.dev", "leases.coordination.k8s.io", "--user=reader")
		b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), "reader may not")
		lacks(t, r, "may not get", "may not list")
	})
	b.apply(t, rights("writer", `- {apiGroups: ["", apps, apiextensions.k8s.io, capstan.dev, coordination.k8s.io, clusterctl.cluster.x-k8s.io, cluster.x-k8s.io, discovery.k8s.io, admissionregistration.k8s.io, authorization.k8s.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: [rbac.authorization.k8s.io], resources: ["*"], verbs: [get, list, create, patch, delete]}`))
	b.as(t, "writer", func() {
		wider := writeRelease(t, "v1.1.0", "", part{name: "core", version: "v1.1.0", manifests: strings.Replace(managed, "[get, list, patch]", "['*']", 1) +
			`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: core-secret-agent}
rules: [{apiGroups: [secret.example.com], resources: [agents], verbs: [get]}]
`})
		b.refused(t, b.capstan(t, "plan", wider), "writer may not give the rights in ClusterRole core-secret-agent of core", "escalate,bind", "--user=writer")
	})
}

// rights gives a user a role of its own.
func rights(user, rules string) string {
	return strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: USER}
rules:
`+rules+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: USER}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: USER}
subjects: [{kind: User, name: USER, apiGroup: rbac.authorization.k8s.io}]
`, "USER", user)
}

// as runs commands as another user, whom the bed's administrator impersonates.
func (b *bed) as(t *testing.T, user string, do func()) {
	t.Helper()
	own := b.Kubeconfig
	b.Kubeconfig = t.TempDir() + "/kubeconfig"
	defer func() { b.Kubeconfig = own }()
	config, err := clientcmd.LoadFromFile(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	if err := clientcmd.WriteToFile(*config, b.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	do()
}
