// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeTree writes files below a directory; names are slash-separated.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := writeFile([]byte(text), dir, filepath.FromSlash(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// providerConfig is a provider's configuration with the parts that matter.
func providerConfig() map[string]string {
	return map[string]string{
		"default/kustomization.yaml": `namespace: capi-system
namePrefix: capi-
labels:
- includeSelectors: true
  pairs:
    cluster.x-k8s.io/provider: cluster-api
resources:
- ../manager
patches:
- path: manager_image_patch.yaml
- path: manager_pull_policy.yaml
`,
		"default/manager_image_patch.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  template:
    spec:
      containers:
      - image: gcr.io/k8s-staging-cluster-api/cluster-api-controller:main
        name: manager
`,
		"default/manager_pull_policy.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  template:
    spec:
      containers:
      - name: manager
        imagePullPolicy: Always
`,
		"manager/kustomization.yaml": "resources:\n- manager.yaml\n",
		"manager/manager.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  selector: {matchLabels: {control-plane: controller-manager}}
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec:
      containers:
      - name: manager
        image: controller:latest
        args: ["--feature-gates=ClusterTopology=${CLUSTER_TOPOLOGY:=false}"]
`,
	}
}

const wantManifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    cluster.x-k8s.io/provider: cluster-api
  name: capi-controller-manager
  namespace: capi-system
spec:
  selector:
    matchLabels:
      cluster.x-k8s.io/provider: cluster-api
      control-plane: controller-manager
  template:
    metadata:
      labels:
        cluster.x-k8s.io/provider: cluster-api
        control-plane: controller-manager
    spec:
      containers:
      - args:
        - --feature-gates=ClusterTopology=${CLUSTER_TOPOLOGY:=false}
        image: registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2
        imagePullPolicy: IfNotPresent
        name: manager
`

func TestManifestIsWhatUpstreamsReleaseWouldHave(t *testing.T) {
	t.Parallel()
	core := Providers()[0]
	for name, place := range map[string]string{
		"from v1.14 on the core provider's configuration is under core": "core/config/",
		"before v1.14 it is at the top":                                 "config/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			module := t.TempDir()
			for file, text := range providerConfig() {
				writeTree(t, module, map[string]string{place + file: text})
			}
			got, err := core.manifest(module, t.TempDir(), "v1.14.2")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), wantManifest); diff != "" {
				t.Errorf("manifest (-got +want):\n%s", diff)
			}
		})
	}
}

func TestAConfigurationThatCannotBeEditedIsAnError(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	if _, err := Providers()[0].manifest(module, module, "v1.14.2"); err == nil || !strings.Contains(err.Error(), "core/config") {
		t.Errorf("no configuration: got %v, want an error that says where it was looked for", err)
	}
	config := providerConfig()
	config["default/manager_pull_policy.yaml"] = "{}\n"
	for file, text := range config {
		writeTree(t, module, map[string]string{"config/" + file: text})
	}
	_, err := Providers()[0].manifest(module, module, "v1.14.2")
	if err == nil || !strings.Contains(err.Error(), "imagePullPolicy") {
		t.Errorf("no pull policy: got %v, want an error that names the field", err)
	}
}

// testChart is a chart with the traits of cert-manager's: a placeholder version, CRDs behind a value, helpers.
func testChart() map[string]string {
	return map[string]string{
		"deploy/manifests/namespace.yaml":                  "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: cert-manager\n",
		"deploy/charts/cert-manager/Chart.template.yaml":   "apiVersion: v2\nname: cert-manager\nversion: v0.0.0\nappVersion: v0.0.0\n",
		"deploy/charts/cert-manager/values.yaml":           "crds: {enabled: false}\nstartupapicheck: {enabled: true}\ncreator: helm\n",
		"deploy/charts/cert-manager/templates/_helper.tpl": `{{- define "labels" -}}version: {{ .Chart.AppVersion }}{{- if ne .Values.creator "static" }}, by: {{ .Values.creator }}{{ end }}{{- end -}}`,
		"deploy/charts/cert-manager/templates/deployment.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
  labels: { {{ include "labels" . }} }
`,
		"deploy/charts/cert-manager/templates/role.yaml":  "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: r\n",
		"deploy/charts/cert-manager/templates/crd.yaml":   "{{- if .Values.crds.enabled }}\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: c\n{{- end }}\n",
		"deploy/charts/cert-manager/templates/check.yaml": "{{- if .Values.startupapicheck.enabled }}\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n{{- end }}\n",
		"deploy/charts/cert-manager/templates/NOTES.txt":  "not: [yaml",
	}
}

const wantCertManager = `# Rendered from the chart of cert-manager v1.20.3.
apiVersion: v1
kind: Namespace
metadata:
  name: cert-manager
---
# Source: cert-manager/templates/crd.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: c
---
# Source: cert-manager/templates/role.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: r
---
# Source: cert-manager/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cert-manager
  namespace: cert-manager
  labels: { version: v1.20.3 }
`

func TestCertManagerIsRenderedAsUpstreamsStaticManifest(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	writeTree(t, module, testChart())
	got, err := certManagerManifest(module, "v1.20.3")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), wantCertManager); diff != "" {
		t.Errorf("manifest (-got +want):\n%s", diff)
	}
}

func TestAChartWithoutCRDsIsAnError(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	writeTree(t, module, testChart())
	if err := os.Remove(filepath.Join(module, "deploy/charts/cert-manager/templates/crd.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := certManagerManifest(module, "v1.20.3"); err == nil || !strings.Contains(err.Error(), "0 CRDs") {
		t.Errorf("got %v, want an error that says that there are no CRDs", err)
	}
}
