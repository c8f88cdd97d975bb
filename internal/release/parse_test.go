// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// digest is a digest that is written well.
const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// good is a release without fault. The tests change a line of it; the line numbers in their messages are those here.
const good = `apiVersion: capstan.dev/v1alpha1
kind: Release
metadata:
  name: platform-1-14
spec:
  version: v1.14.0
  upgradeFrom:
  - v1.13.0
  kubernetes:
    management: {min: v1.32, max: v1.36}
    workload: {min: v1.30.0}
  components:
  - name: cert-manager
    type: manifest
    version: v1.20.0
    source:
      url: https://example.com/cert-manager.yaml
      digest: ` + digest + `
  - name: core
    type: provider
    version: v1.14.2
    provider:
      name: cluster-api
      type: CoreProvider
      namespace: capi-system
    source:
      path: core/components.yaml
    metadata:
      path: core/metadata.yaml
    needs: [cert-manager]
  - name: kubeadm-bootstrap
    type: provider
    version: v1.14.2
    provider:
      name: kubeadm
      type: BootstrapProvider
      namespace: capi-kubeadm-bootstrap-system
    source:
      oci: oci://registry.example.com/bootstrap:v1.14.2@` + digest + `
    needs:
    - core
    variables:
      EXP_MACHINE_POOL: "true"
`

// report is an error as a user meets it.
type report struct {
	Text   string
	Reason string
	Exit   problem.Exit
}

func reportOf(err error) report {
	if err == nil {
		return report{}
	}
	r := report{Text: err.Error(), Exit: problem.ExitOf(err)}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		r.Reason = p.Reason
	}
	return r
}

func TestParseReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := release.Parse("release.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.Release{
		TypeMeta:   metav1.TypeMeta{APIVersion: "capstan.dev/v1alpha1", Kind: "Release"},
		ObjectMeta: metav1.ObjectMeta{Name: "platform-1-14"},
		Spec: v1alpha1.ReleaseSpec{
			Version:     "v1.14.0",
			UpgradeFrom: []string{"v1.13.0"},
			Kubernetes: &v1alpha1.KubernetesRanges{
				Management: &v1alpha1.VersionRange{Min: "v1.32", Max: "v1.36"},
				Workload:   &v1alpha1.VersionRange{Min: "v1.30.0"},
			},
			Components: []v1alpha1.Component{{
				Name: "cert-manager", Type: v1alpha1.ComponentManifest, Version: "v1.20.0",
				Source: v1alpha1.Source{URL: "https://example.com/cert-manager.yaml", Digest: digest},
			}, {
				Name: "core", Type: v1alpha1.ComponentProvider, Version: "v1.14.2",
				Provider: &v1alpha1.ProviderIdentity{Name: "cluster-api", Type: "CoreProvider", Namespace: "capi-system"},
				Source:   v1alpha1.Source{Path: "core/components.yaml"},
				Metadata: &v1alpha1.Source{Path: "core/metadata.yaml"},
				Needs:    []string{"cert-manager"},
			}, {
				Name: "kubeadm-bootstrap", Type: v1alpha1.ComponentProvider, Version: "v1.14.2",
				Provider:  &v1alpha1.ProviderIdentity{Name: "kubeadm", Type: "BootstrapProvider", Namespace: "capi-kubeadm-bootstrap-system"},
				Source:    v1alpha1.Source{OCI: "oci://registry.example.com/bootstrap:v1.14.2@" + digest},
				Needs:     []string{"core"},
				Variables: map[string]string{"EXP_MACHINE_POOL": "true"},
			}},
		},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestParseRefusesWhatIsNoRelease(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in   string
		want report
	}{
		"an empty file": {"", report{"release.yaml: the file is empty, a release was expected (next: write a document with apiVersion: capstan.dev/v1alpha1 and kind: Release)", "ReleaseEmpty", 2}},
		"only comments": {"# nothing\n---\n", report{"release.yaml: the file is empty, a release was expected (next: write a document with apiVersion: capstan.dev/v1alpha1 and kind: Release)", "ReleaseEmpty", 2}},
		"not YAML":      {"apiVersion: capstan.dev/v1alpha1\nkind: Release: no\n", report{"release.yaml:2: not valid YAML: mapping values are not allowed in this context", "NotYAML", 2}},
		"a tab":         {"apiVersion: capstan.dev/v1alpha1\nspec:\n\tversion: v1.0.0\n", report{"release.yaml:3: not valid YAML: found character that cannot start any token", "NotYAML", 2}},
		"binary":        {"\x1f\x8b\x08\x00", report{"release.yaml: not valid YAML: control characters are not allowed", "NotYAML", 2}},
		"plain text":    {"hello\n", report{`release.yaml:1: want a Release object, got text "hello"`, "WrongType", 2}},
		"a list":        {"- a\n", report{"release.yaml:1: want a Release object, got a list", "WrongType", 2}},
		"two documents": {good + "---\n" + good, report{"release.yaml:45: a second YAML document begins here, a release is exactly one (next: keep one document in the file)", "ManyDocuments", 2}},
		"another kind":  {"apiVersion: apps/v1\nkind: Deployment\nspec: {}\n", report{`release.yaml:1: apiVersion: is text "apps/v1", want capstan.dev/v1alpha1 (and 1 more fault)`, "WrongKind", 2}},
		"no kind":       {"apiVersion: capstan.dev/v1alpha1\nspec: {}\n", report{"release.yaml:1: kind: is missing (next: add kind: Release)", "WrongKind", 2}},
		"a later version of the API": {strings.Replace(good, "v1alpha1", "v1beta7", 1), report{
			`release.yaml:1: apiVersion: is text "capstan.dev/v1beta7", want capstan.dev/v1alpha1`, "WrongKind", 2,
		}},
		"aliases within aliases": {"apiVersion: capstan.dev/v1alpha1\nkind: Release\nspec:\n  components:\n  - &c\n    needs: [" +
			strings.Repeat("a, ", 1000) + "a]\n" + strings.Repeat("  - *c\n", 300), report{"release.yaml:1: the file has more than 200000 values", "TooLarge", 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := release.Parse("release.yaml", []byte(tc.in))
			if diff := cmp.Diff(reportOf(err), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestParseRefusesFaultsInARelease(t *testing.T) {
	t.Parallel()
	other := strings.Replace(digest, "0", "f", 1)
	cases := map[string]struct {
		replace, with string
		want          report
	}{
		"an unknown field": {"needs: [cert-manager]", "need: [cert-manager]", report{
			`release.yaml:30: spec.components[1].need: there is no such field (next: did you mean "needs"?)`, "UnknownField", 2,
		}},
		"an unknown field like no other": {"  upgradeFrom:", "  colour: green\n  upgradeFrom:", report{
			`release.yaml:7: spec.colour: there is no such field`, "UnknownField", 2,
		}},
		"a field of another case": {"version: v1.14.0", "Version: v1.14.0", report{
			`release.yaml:6: spec.Version: there is no such field (next: did you mean "version"?)`, "UnknownField", 2,
		}},
		"a field given twice": {"    workload: {min: v1.30.0}", "    workload: {min: v1.30.0}\n    workload: {min: v1.31.0}", report{
			`release.yaml:12: spec.kubernetes.workload: is given twice, first on line 11`, "DuplicateField", 2,
		}},
		"a number for a version": {"version: v1.14.0", "version: 1.14", report{
			`release.yaml:6: spec.version: want text, got number 1.14 (next: put it in quotes: "1.14")`, "WrongType", 2,
		}},
		"text for a list": {"needs: [cert-manager]", "needs: cert-manager", report{
			`release.yaml:30: spec.components[1].needs: want a list, got text "cert-manager"`, "WrongType", 2,
		}},
		"a list for a mapping": {"      path: core/components.yaml", "    - path: core/components.yaml", report{
			`release.yaml:26: spec.components[1].source: want a mapping, got a list`, "WrongType", 2,
		}},
		"a truth value for a variable": {`EXP_MACHINE_POOL: "true"`, `EXP_MACHINE_POOL: true`, report{
			`release.yaml:43: spec.components[2].variables.EXP_MACHINE_POOL: want text, got boolean true (next: put it in quotes: "true")`, "WrongType", 2,
		}},
		"an empty need": {"    - core\n", "    -\n", report{
			`release.yaml:41: spec.components[2].needs[0]: is empty`, "WrongType", 2,
		}},
		"a merge key": {"  version: v1.14.0", "  <<: {version: v1.14.0}", report{
			`release.yaml:6: spec.<<: a field name has to be plain text (next: write the fields out)`, "WrongType", 2,
		}},
		"no name":              {"  name: platform-1-14", "  labels: {}", report{`release.yaml:3: metadata.name: is missing (next: give the release a name)`, "MissingField", 2}},
		"a name with capitals": {"platform-1-14", "Platform_1", report{`release.yaml:4: metadata.name: "Platform_1" can't be the name of a Kubernetes object: lower case letters, digits, '-' and '.' are allowed`, "BadName", 2}},
		"no version":           {"  version: v1.14.0\n", "", report{`release.yaml:5: spec.version: is missing (next: give a semantic version with a leading v, such as v1.2.3)`, "MissingField", 2}},
		"a bad release version": {"version: v1.14.0", "version: 1.14.0", report{
			`release.yaml:6: spec.version: "1.14.0" is not a semantic version with a leading v, such as v1.2.3`, "BadVersion", 2,
		}},
		"a bad component version": {"version: v1.20.0", "version: latest", report{
			`release.yaml:15: spec.components[0].version: "latest" is not a semantic version with a leading v, such as v1.2.3`, "BadVersion", 2,
		}},
		"a bad upgradeFrom": {"- v1.13.0", "- v1.13", report{
			`release.yaml:8: spec.upgradeFrom[0]: "v1.13" is not a semantic version with a leading v, such as v1.2.3`, "BadVersion", 2,
		}},
		"a range that holds nothing": {"{min: v1.32, max: v1.36}", "{min: v1.37, max: v1.36}", report{
			`release.yaml:10: spec.kubernetes.management: min v1.37 is higher than max v1.36`, "BadRange", 2,
		}},
		"a bad bound": {"{min: v1.30.0}", "{max: new}", report{
			`release.yaml:11: spec.kubernetes.workload: max: "new" is neither a version such as v1.36.0 nor a minor version such as v1.36`, "BadRange", 2,
		}},
		"no type": {"    type: manifest\n", "", report{
			`release.yaml:13: spec.components[0].type: component "cert-manager" has no type (next: set type: provider or type: manifest)`, "MissingField", 2,
		}},
		"an unknown type": {"type: manifest", "type: helm", report{
			`release.yaml:14: spec.components[0].type: component "cert-manager" has the unknown type "helm" (next: set type: provider or type: manifest)`, "BadProvider", 2,
		}},
		"a name that comes twice": {"name: kubeadm-bootstrap", "name: cert-manager", report{
			`release.yaml:31: spec.components[2].name: a component named "cert-manager" is there already, see line 13`, "DuplicateComponent", 2,
		}},
		"a component's name with capitals": {"name: kubeadm-bootstrap", "name: Kubeadm", report{
			`release.yaml:31: spec.components[2].name: "Kubeadm" can't be a component's name: up to 63 lower case letters, digits and '-' are allowed`, "BadName", 2,
		}},
		"a provider that comes twice": {"      name: kubeadm\n      type: BootstrapProvider", "      name: cluster-api\n      type: CoreProvider", report{
			`release.yaml:34: spec.components[2].provider: components "core" and "kubeadm-bootstrap" are both the CoreProvider cluster-api`, "DuplicateComponent", 2,
		}},
		"a provider without identity": {"    provider:\n      name: cluster-api\n      type: CoreProvider\n      namespace: capi-system\n", "", report{
			`release.yaml:19: spec.components[1].provider: component "core" of type provider has no provider identity (next: add provider with name, type and namespace as the clusterctl inventory has them)`, "BadProvider", 2,
		}},
		"a provider of an unknown type": {"type: CoreProvider", "type: Core", report{
			`release.yaml:24: spec.components[1].provider.type: component "core" has the unknown provider type "Core" (next: one of CoreProvider, BootstrapProvider, ControlPlaneProvider, InfrastructureProvider, IPAMProvider, RuntimeExtensionProvider, AddonProvider)`, "BadProvider", 2,
		}},
		"a provider without namespace": {"      namespace: capi-system\n", "", report{
			`release.yaml:22: spec.components[1].provider.namespace: provider namespace of component "core" is missing`, "MissingField", 2,
		}},
		"a manifest with provider identity": {"type: manifest", "type: manifest\n    provider: {name: a, type: CoreProvider, namespace: b}", report{
			`release.yaml:15: spec.components[0].provider: component "cert-manager" of type manifest can't have a provider identity (next: set type: provider, or leave provider out)`, "BadProvider", 2,
		}},
		"a manifest with provider metadata": {"type: manifest", "type: manifest\n    metadata: {path: metadata.yaml}", report{
			`release.yaml:15: spec.components[0].metadata: component "cert-manager" of type manifest can't have provider metadata (next: leave metadata out)`, "BadProvider", 2,
		}},
		"a source without place": {"    source:\n      path: core/components.yaml", "    source: {}", report{
			`release.yaml:26: spec.components[1].source: exactly one of path, url, oci, configMap and repository is wanted, none is given`, "BadSource", 2,
		}},
		"a source with two places": {"      path: core/components.yaml", "      path: core/components.yaml\n      url: https://example.com/core.yaml\n      digest: " + digest, report{
			`release.yaml:26: spec.components[1].source: exactly one of path, url, oci, configMap and repository is wanted, path and url are given`, "BadSource", 2,
		}},
		"a path that escapes": {"core/components.yaml", "../core/components.yaml", report{
			`release.yaml:27: spec.components[1].source.path: "../core/components.yaml" leads out of the release directory (next: keep the files of a release in its directory)`, "PathEscapes", 2,
		}},
		"a path that escapes within": {"core/metadata.yaml", "core/../../metadata.yaml", report{
			`release.yaml:29: spec.components[1].metadata.path: "core/../../metadata.yaml" leads out of the release directory (next: keep the files of a release in its directory)`, "PathEscapes", 2,
		}},
		"an absolute path": {"core/components.yaml", "/etc/core.yaml", report{
			`release.yaml:27: spec.components[1].source.path: "/etc/core.yaml" leads out of the release directory (next: keep the files of a release in its directory)`, "PathEscapes", 2,
		}},
		"the release directory itself": {"core/components.yaml", "./core/..", report{
			`release.yaml:27: spec.components[1].source.path: "./core/.." is the release directory itself (next: put the component's files into a directory of their own)`, "BadSource", 2,
		}},
		"an address of another kind": {"https://example.com", "ftp://example.com", report{
			`release.yaml:17: spec.components[0].source.url: "ftp://example.com/cert-manager.yaml" is not an https or http address`, "BadSource", 2,
		}},
		"a url without digest": {"      digest: " + digest + "\n", "", report{
			`release.yaml:16: spec.components[0].source.digest: a url needs a digest (next: add digest: sha256:..., of "sha256sum" over the file)`, "BadDigest", 2,
		}},
		"a digest that is too short": {"      digest: " + digest, "      digest: sha256:0123", report{
			`release.yaml:18: spec.components[0].source.digest: "sha256:0123" is not a digest, which is "sha256:" and 64 hexadecimal digits in lower case`, "BadDigest", 2,
		}},
		"an oci source without digest": {"bootstrap:v1.14.2@" + digest, "bootstrap:v1.14.2", report{
			`release.yaml:38: spec.components[2].source.digest: an oci source needs a digest (next: add digest: sha256:..., the digest of the artifact's manifest)`, "BadDigest", 2,
		}},
		"an oci source with two digests": {"bootstrap:v1.14.2@" + digest, "bootstrap:v1.14.2@" + digest + "\n      digest: " + other, report{
			`release.yaml:40: spec.components[2].source.digest: digest ` + other + ` is another one than that in the reference, ` + digest, "BadDigest", 2,
		}},
		"an oci source without tag": {"bootstrap:v1.14.2@" + digest, "bootstrap", report{
			`release.yaml:39: spec.components[2].source.oci: "oci://registry.example.com/bootstrap" is not a reference of the form oci://registry/repository:tag or oci://registry/repository@sha256:..., a tag or digest included`, "BadSource", 2,
		}},
		"a need that is not there": {"needs: [cert-manager]", "needs: [cert-manger]", report{
			`release.yaml:30: spec.components[1].needs[0]: component "core" needs "cert-manger", which is not in the release (next: did you mean "cert-manager"?)`, "UnknownNeed", 2,
		}},
		"a need like no component": {"    - core\n", "    - database\n", report{
			`release.yaml:41: spec.components[2].needs[0]: component "kubeadm-bootstrap" needs "database", which is not in the release`, "UnknownNeed", 2,
		}},
		"a need that comes twice": {"    - core\n", "    - core\n    - core\n", report{
			`release.yaml:42: spec.components[2].needs[1]: component "kubeadm-bootstrap" needs "core" twice`, "DuplicateField", 2,
		}},
		"a component that needs itself": {"    - core\n", "    - kubeadm-bootstrap\n", report{
			`release.yaml:41: spec.components[2].needs[0]: component "kubeadm-bootstrap" needs itself`, "NeedCycle", 2,
		}},
		"a circle": {"needs: [cert-manager]", "needs: [cert-manager, kubeadm-bootstrap]", report{
			`release.yaml:30: spec.components[1].needs[1]: components need each other in a circle: core -> kubeadm-bootstrap -> core (next: remove one of these needs)`, "NeedCycle", 2,
		}},
		"a variable that can't be one": {"EXP_MACHINE_POOL", "EXP-POOL", report{
			`release.yaml:43: spec.components[2].variables.EXP-POOL: "EXP-POOL" can't be the name of a variable: letters, digits and '_' are allowed`, "BadVariable", 2,
		}},
		"no components": {good[strings.Index(good, "  components:"):], "  components: []\n", report{
			`release.yaml:12: spec.components: the release has no components`, "MissingField", 2,
		}},
		"several faults": {"    version: v1.14.2\n", "    version: one\n", report{
			`release.yaml:21: spec.components[1].version: "one" is not a semantic version with a leading v, such as v1.2.3 (and 1 more fault)`, "BadVersion", 2,
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := strings.ReplaceAll(good, tc.replace, tc.with)
			if in == good {
				t.Fatalf("%q is not in the release", tc.replace)
			}
			_, err := release.Parse("release.yaml", []byte(in))
			if diff := cmp.Diff(reportOf(err), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestAReleaseThatIsInNoFileNamesTheField(t *testing.T) {
	t.Parallel()
	r, err := release.Parse("release.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	r.Spec.Components[1].Needs = []string{"helm"}
	want := report{`spec.components[1].needs[0]: component "core" needs "helm", which is not in the release`, "UnknownNeed", 2}
	if diff := cmp.Diff(reportOf(release.Validate(r, nil)), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(""))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata: {generation: 0x1F, creationTimestamp: no}\nspec: &s {<<: *s}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := release.Parse("release.yaml", data)
		if err == nil {
			if _, orderErr := release.Order(r.Spec.Components); orderErr != nil {
				t.Errorf("accepted, but it has no order: %v", orderErr)
			}
			return
		}
		p, ok := errors.AsType[*problem.Error](err)
		if !ok {
			t.Fatalf("not a problem: %v", err)
		}
		if p.Exit != problem.ExitUsage || !strings.HasPrefix(p.Where, "release.yaml") || p.Message == "" {
			t.Errorf("incomplete: %+v", p)
		}
	})
}
