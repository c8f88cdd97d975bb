// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// seriesOf is clusterctl's metadata; each series is "major.minor contract".
func seriesOf(series ...string) string {
	out := "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n"
	for _, s := range series {
		var major, minor int
		var contract string
		if _, err := fmt.Sscanf(strings.Replace(s, ".", " ", 1), "%d %d %s", &major, &minor, &contract); err != nil {
			panic(err)
		}
		out += fmt.Sprintf("- {major: %d, minor: %d, contract: %s}\n", major, minor, contract)
	}
	return out
}

// configMapOf is a provider in a ConfigMap, as the Cluster API operator keeps it without internet.
func configMapOf(namespace, name, providerType, version, metadata, components string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: %[2]s-%[4]s
  namespace: %[1]s
  labels: {provider.cluster.x-k8s.io/name: %[2]s, provider.cluster.x-k8s.io/type: %[3]s, provider.cluster.x-k8s.io/version: %[4]s}
data:
  metadata: |
%[5]s  components: |
%[6]s`, namespace, name, providerType, version, indent(metadata, "    "), indent(components, "    "))
}

func coreProvider(version, metadata string) part {
	return part{name: "cluster-api", version: version, provider: "CoreProvider", manifests: account("cluster-api"), metadata: metadata}
}

func infraProvider(version, metadata string) part {
	return part{name: "x", version: version, provider: "InfrastructureProvider", manifests: account("x"), metadata: metadata}
}

func TestC04_LaggingProviderIsWarnedOfWhileItsContractIsStillKnown(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.installed(t, coreProvider("v1.10.8", ""), infraProvider("v0.9.0", ""))
	b.apply(t, configMapOf("x-system", "x", "infrastructure", "v0.9.0", seriesOf("0.9 v1beta1"), account("x")))
	dir := writeRelease(t, "v1.1.0", "", coreProvider("v1.12.0", seriesOf("1.10 v1beta1", "1.12 v1beta2")))
	want(t, b.capstan(t, "plan", dir), problem.ExitDone,
		"WARN  CAP-CONTRACT", "infrastructure-x v0.9.0, which is not part of the release, speaks contract v1beta1", "core provider v1.12.0 speaks v1beta2 and still works with it",
		"PROVIDER          VERSION  v1beta1  v1beta2", "cluster-api       v1.12.0  yes      yes", "infrastructure-x  v0.9.0   yes      -", "ConfigMap x-system/x-v0.9.0")
	want(t, b.capstan(t, "plan", dir, "-o", "json"), problem.ExitDone, `"contracts":`, `"provider": "infrastructure-x"`, `"stays": true`)
}

func TestC04_LaggingProviderIsRefusedOnceItsContractIsDropped(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.installed(t, coreProvider("v1.12.0", ""), infraProvider("v0.9.0", ""))
	b.apply(t, configMapOf("x-system", "x", "infrastructure", "v0.9.0", seriesOf("0.9 v1beta1"), account("x")))
	dir := writeRelease(t, "v1.1.0", "", coreProvider("v1.15.0", seriesOf("1.12 v1beta2", "1.15 v1beta3")))
	said := []string{
		"BLOCK  CAP-CONTRACT", "infrastructure-x v0.9.0", "speaks contract v1beta1", "core provider v1.15.0 works with v1beta3 only",
		"no release found for contract v1beta3 in ConfigMap x-system/x-v0.9.0",
	}
	b.refused(t, b.capstan(t, "plan", dir), append(said, "PROVIDER          VERSION  v1beta1  v1beta3")...)
	b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), said...)
}

func TestC04_LaggingProviderIsKnownByAConfigMapNamedByVersion(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.installed(t, coreProvider("v1.12.0", ""), infraProvider("v0.9.0", ""))
	b.apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v0.9.0, namespace: x-system, labels: {provider-components: x}}\ndata:\n  metadata: |\n%s",
		indent(seriesOf("0.9 v1beta1"), "    ")))
	dir := writeRelease(t, "v1.1.0", "", coreProvider("v1.15.0", seriesOf("1.15 v1beta3")))
	b.refused(t, b.capstan(t, "plan", dir), "CAP-CONTRACT", "infrastructure-x v0.9.0", "no release found for contract v1beta3 in ConfigMap x-system/v0.9.0")
}

func TestC04_LaggingProviderIsKnownByTheLabelsOfItsCRDs(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.installed(t, coreProvider("v1.12.0", ""), infraProvider("v0.9.0", ""))
	b.apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: xclusters.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/provider: infrastructure-x, cluster.x-k8s.io/v1beta1: v1alpha1}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: XCluster, plural: xclusters}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	dir := writeRelease(t, "v1.1.0", "", coreProvider("v1.15.0", seriesOf("1.15 v1beta3")))
	b.refused(t, b.capstan(t, "plan", dir), "CAP-CONTRACT", "infrastructure-x v0.9.0", "speaks contract v1beta1", "no release found for contract v1beta3 in the cluster")
}

func TestC04_WholeReleaseFromConfigMaps(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.installed(t, coreProvider("v1.10.8", ""), infraProvider("v0.9.0", ""))
	b.apply(t, configMapOf("air", "cluster-api", "core", "v1.12.0", seriesOf("1.12 v1beta2"), account("cluster-api")))
	b.apply(t, configMapOf("air", "x", "infrastructure", "v1.0.0", seriesOf("1.0 v1beta2"), account("x")))
	from := func(p part, name string) part {
		p.manifests = ""
		p.more = "source: {configMap: {namespace: air, name: " + name + "}}\nmetadata: {configMap: {namespace: air, name: " + name + "}}"
		return p
	}
	dir := writeRelease(t, "v1.1.0", "", from(infraProvider("v1.0.0", ""), "x-v1.0.0"), from(coreProvider("v1.12.0", ""), "cluster-api-v1.12.0"))
	r := b.capstan(t, "plan", dir, "--accept", "CAP-MAJOR-JUMP=read about it")
	want(t, r, problem.ExitDone, "x            provider  v0.9.0")
	lacks(t, r, "CAP-CONTRACT")
}

func TestC05_ProviderThatSpeaksOneOfSeveralContractsIsAccepted(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	p := infraProvider("v1.0.0", "")
	p.manifests += `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: xclusters.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1alpha4: v1alpha4, cluster.x-k8s.io/v1beta2: v1beta2}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: XCluster, plural: xclusters}
  scope: Namespaced
  versions:
    - {name: v1alpha4, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
    - {name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
	r := b.capstan(t, "plan", writeRelease(t, "v1.1.0", "", coreProvider("v1.12.0", seriesOf("1.12 v1beta2")), p))
	want(t, r, problem.ExitDone)
	lacks(t, r, "CAP-CONTRACT")
}
