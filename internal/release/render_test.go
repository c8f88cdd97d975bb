// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
)

const metadataYAML = `apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
- {major: 0, minor: 3, contract: v1beta2}
- {major: 0, minor: 2, contract: v1beta1}
`

func demo() v1alpha1.Component {
	return v1alpha1.Component{
		Name: "demo", Type: v1alpha1.ComponentProvider, Version: "v0.3.1",
		Provider:  &v1alpha1.ProviderIdentity{Name: "demo", Type: "InfrastructureProvider", Namespace: "demo-system"},
		Source:    v1alpha1.Source{Path: "demo/provider.yaml"},
		Variables: map[string]string{"DEMO_REGION": "eu-1"},
	}
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name)) //nolint:gosec // a fixed name below testdata
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares with a file; UPDATE=1 in the environment rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(filepath.Join("testdata", name), got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(got), string(testdata(t, name))); diff != "" {
		t.Errorf("%s (-got +want):\n%s", name, diff)
	}
}

func TestAProviderIsRenderedAsClusterctlWould(t *testing.T) {
	t.Parallel()
	r, err := release.Render(demo(), testdata(t, "provider.yaml"), []byte(metadataYAML))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "provider.golden.yaml", encoded)
}

func TestAProviderGoesToTheNamespaceOfItsIdentity(t *testing.T) {
	t.Parallel()
	c := demo()
	c.Provider.Namespace = "elsewhere"
	r, err := release.Render(c, testdata(t, "provider.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := release.Encode(r.Objects)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(encoded), "demo-system") {
		t.Errorf("the namespace of the manifest is still there:\n%s", encoded)
	}
	if diff := cmp.Diff(r.Inventory.Namespace, "elsewhere"); diff != "" {
		t.Errorf("inventory (-got +want):\n%s", diff)
	}
}

func TestTheContractComesFromMetadataOrElseFromCRDs(t *testing.T) {
	t.Parallel()
	core := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: clusters.cluster.x-k8s.io}\n" +
		"spec: {group: cluster.x-k8s.io, versions: [{name: v1beta1}, {name: v1beta2}, {name: v1alpha4}]}\n"
	cases := map[string]struct {
		version, raw, metadata string
		want                   string
	}{
		"the series of the version":         {"v0.2.9", string(testdata(t, "provider.yaml")), metadataYAML, "v1beta1"},
		"the labels of the CRDs":            {"v0.2.9", string(testdata(t, "provider.yaml")), "", "v1beta2"},
		"the API version of core's Cluster": {"v0.2.9", core, "", "v1beta2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := demo()
			c.Version = tc.version
			if !strings.Contains(tc.raw, "DEMO_REGION") {
				c.Variables = nil
			}
			r, err := release.Render(c, []byte(tc.raw), []byte(tc.metadata))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Contract, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestAManifestIsLabelledAndOtherwiseLeftAlone(t *testing.T) {
	t.Parallel()
	raw := `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: scripts, namespace: a, labels: {app: x}, annotations: {note: "y"}}
  data: {run: "echo ${HOME}"}
---
apiVersion: v1
kind: Namespace
metadata: {name: a}
status: {phase: Active}
`
	r, err := release.Render(manifest("tools"), []byte(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := release.Encode(r.Objects)
	if err != nil {
		t.Fatal(err)
	}
	want := `---
apiVersion: v1
kind: Namespace
metadata:
  annotations:
    capstan.dev/version: v1.0.0
  labels:
    capstan.dev/component: tools
  name: a
---
apiVersion: v1
data:
  run: echo ${HOME}
kind: ConfigMap
metadata:
  annotations:
    capstan.dev/version: v1.0.0
    note: "y"
  labels:
    app: x
    capstan.dev/component: tools
  name: scripts
  namespace: a
`
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if r.Inventory != nil || r.Contract != "" {
		t.Errorf("a manifest has the inventory entry %v and the contract %q", r.Inventory, r.Contract)
	}
}

func TestVariablesOfAManifestAreSubstitutedOnceItNamesAny(t *testing.T) {
	t.Parallel()
	c := manifest("tools")
	c.Variables = map[string]string{"WHO": "world"}
	r, err := release.Render(c, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {hello: \"${WHO}, ${HOW:=well}\"}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedString(r.Objects[0].Object, "data", "hello")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, "world, well"); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestAValueThatNothingUsesIsLetThrough(t *testing.T) {
	t.Parallel()
	c := demo()
	c.Variables["CLUSTER_TOPOLOGY"] = "true" // One set of values may serve several providers.
	if _, err := release.Render(c, testdata(t, "provider.yaml"), nil); err != nil {
		t.Error(err)
	}
}

func TestTheEnvironmentIsNotLookedAt(t *testing.T) {
	t.Setenv("DEMO_REGION", "from-the-shell")
	c := demo()
	c.Variables = nil
	_, err := release.Render(c, testdata(t, "provider.yaml"), nil)
	want := report{`demo/provider.yaml:111: component "demo" needs a value for variable DEMO_REGION (next: set it under variables of the component; the environment is not looked at)`, "MissingVariable", 3}
	if diff := cmp.Diff(reportOf(err), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestCertManagerIsRecordedAsClusterctlDoes(t *testing.T) {
	t.Parallel()
	c := manifest("cert-manager")
	c.Version = "v1.20.0"
	r, err := release.Render(c, []byte("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: cert-manager, namespace: cert-manager}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{"capstan.dev/component": "cert-manager", "clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "cert-manager"}
	if diff := cmp.Diff(r.Objects[0].GetLabels(), wantLabels); diff != "" {
		t.Errorf("labels (-got +want):\n%s", diff)
	}
	wantAnnotations := map[string]string{"capstan.dev/version": "v1.20.0", "cert-manager.clusterctl.cluster.x-k8s.io/version": "v1.20.0"}
	if diff := cmp.Diff(r.Objects[0].GetAnnotations(), wantAnnotations); diff != "" {
		t.Errorf("annotations (-got +want):\n%s", diff)
	}
}

func TestObjectsAreInTheOrderOfTheirPhases(t *testing.T) {
	t.Parallel()
	var raw strings.Builder
	for _, id := range []string{
		"stable.example.com/v1 Thing", "stable.example.com/v1 Service", "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
		"apps/v1 Deployment", "v1 Service", "v1 ConfigMap", "rbac.authorization.k8s.io/v1 RoleBinding", "rbac.authorization.k8s.io/v1 ClusterRole", "apiextensions.k8s.io/v1 CustomResourceDefinition",
		"cert-manager.io/v1 Certificate", "v1 Namespace", "v1 Secret", "batch/v1 Job",
	} {
		apiVersion, kind, _ := strings.Cut(id, " ")
		fmt.Fprintf(&raw, "---\napiVersion: %s\nkind: %s\nmetadata: {name: x}\nspec: {group: GROUP}\n", apiVersion, kind)
	}
	cases := map[string]struct {
		group string
		want  []string
	}{
		"certificates come before definitions": {"stable.example.com", []string{
			"0 Namespace", "1 Certificate", "2 CustomResourceDefinition", "3 ClusterRole", "4 RoleBinding", "5 ConfigMap", "5 Secret", "6 Service",
			"7 Deployment", "7 Job", "8 ValidatingWebhookConfiguration", "9 Thing", "9 Service",
		}},
		"but last where the component defines them itself": {"cert-manager.io", []string{
			"0 Namespace", "2 CustomResourceDefinition", "3 ClusterRole", "4 RoleBinding", "5 ConfigMap", "5 Secret", "6 Service",
			"7 Deployment", "7 Job", "8 ValidatingWebhookConfiguration", "9 Thing", "9 Service", "9 Certificate",
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := release.Render(manifest("all"), []byte(strings.ReplaceAll(raw.String(), "GROUP", tc.group)), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range r.Objects {
				got = append(got, fmt.Sprintf("%d %s", r.Phase(o), o.GetKind()))
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestBadContentIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	joined := string(release.Join([]string{"tools/a.yaml", "tools/b.yaml"}, [][]byte{[]byte(object), []byte("# b\n---\n" + strings.ReplaceAll(object, "a}", "b}") + "---\nkind: [\n")}))
	cases := map[string]struct {
		component     v1alpha1.Component
		raw, metadata string
		want          report
	}{
		"broken YAML names file, document and line": {
			manifest("tools"), object + "---\n# the second\na: b\nc: d: e\n", "",
			report{`tools.yaml:7: component "tools": document 2 is not valid YAML: mapping values are not allowed in this context`, "BadManifest", 2},
		},
		"in a joined stream it is the file that counts": {
			manifest("tools"), joined, "",
			report{`tools/b.yaml:7: component "tools": document 2 is not valid YAML: did not find expected node content`, "BadManifest", 2},
		},
		"a separator with something behind it": {
			manifest("tools"), object + "--- # more\n{kind: }\n", "",
			report{`tools.yaml:4: component "tools": the object in document 2 has no apiVersion`, "BadManifest", 2},
		},
		"no object": {
			manifest("tools"), "# nothing\n---\n---\nnull\n", "",
			report{`tools.yaml: component "tools": there is no Kubernetes object in it`, "BadManifest", 2},
		},
		"a plain value": {
			manifest("tools"), "hello\n", "",
			report{`tools.yaml:1: component "tools": document 1 is not a Kubernetes object but a plain value or list`, "BadManifest", 2},
		},
		"an object without name": {
			manifest("tools"), "\n\napiVersion: v1\nkind: Pod\nmetadata: {generateName: a}\n", "",
			report{`tools.yaml:1: component "tools": the object in document 1 has no metadata.name`, "BadManifest", 2},
		},
		"an object without kind": {
			manifest("tools"), "apiVersion: v1\nmetadata: {name: a}\n", "",
			report{`tools.yaml:1: component "tools": the object in document 1 has no kind`, "BadManifest", 2},
		},
		"a label that is no text": {
			manifest("tools"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {one: x, debug: yes}}\n", "",
			report{`tools.yaml:1: component "tools": the labels of Pod a in document 1 are not all text (next: put their values in quotes)`, "BadManifest", 2},
		},
		"a List of texts": {
			manifest("tools"), "apiVersion: v1\nkind: List\nitems: [a]\n", "",
			report{`tools.yaml:1: component "tools": item 0 of the List in document 1 is not an object`, "BadManifest", 2},
		},
		"an object given twice": {
			manifest("tools"), object + "---\n" + object, "",
			report{`tools.yaml:4: component "tools": ConfigMap a in document 2 is there already, see tools.yaml:1`, "DuplicateObject", 2},
		},
		"a broken variable": {
			demo(), "a: ${DEMO_REGION}\nb: ${DEMO REGION}\n", "",
			report{`demo/provider.yaml:2: component "demo": a ${...} can't be read: missing closing brace`, "BadManifest", 2},
		},
		"two variables without value": {
			provider("demo", "AddonProvider"), "a: ${ONE}\nb: ${TWO}\n", "",
			report{`demo.yaml:1: component "demo" needs a value for variables ONE, TWO (next: set it under variables of the component; the environment is not looked at)`, "MissingVariable", 3},
		},
		"a misspelt variable": {
			demo(), object + "data: {a: \"${DEMO_REGIONS:=all}\"}\n", "",
			report{`demo/provider.yaml: component "demo" sets variable DEMO_REGION, which its manifests do not use (next: did you mean DEMO_REGIONS? If not, remove it)`, "BadVariable", 3},
		},
		"two namespaces in a provider": {
			provider("demo", "AddonProvider"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n", "",
			report{`demo.yaml: component "demo": clusterctl can't use the manifests: failed to detect default target namespace: Invalid manifest. There should be no more than one resource with Kind Namespace in the provider components yaml`, "BadManifest", 2},
		},
		"metadata that is not YAML": {
			provider("demo", "AddonProvider"), object, "a: b: c",
			report{`metadata: component "demo": the provider metadata can't be read: error converting YAML to JSON: yaml: mapping values are not allowed in this context`, "BadMetadata", 2},
		},
		"metadata of another kind": {
			provider("demo", "AddonProvider"), object, "apiVersion: v1\nkind: Metadata\n",
			report{`metadata: component "demo": the provider metadata is v1 Metadata, want clusterctl.cluster.x-k8s.io/v1alpha3 Metadata`, "BadMetadata", 2},
		},
		"metadata that does not know the version": {
			provider("demo", "AddonProvider"), object, metadataYAML,
			report{`metadata: component "demo": the provider metadata has no release series for v1.0.0 (next: use the metadata.yaml that was published with v1.0.0)`, "BadMetadata", 3},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := release.Render(tc.component, []byte(tc.raw), []byte(tc.metadata))
			if diff := cmp.Diff(reportOf(err), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}
