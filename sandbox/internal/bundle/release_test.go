// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
)

// supportPage has the traits of upstream's page: another table first, and two tables that name the versions.
const supportPage = `# Versions

| Minor Release | Status |
|---------------|--------|
| v1.14.x       | Standard support period |

### Core provider

|                  | v1.12, _Maintenance Mode_ | v1.13             | v1.14             |
|------------------|---------------------------|-------------------|-------------------|
| Kubernetes v1.30 | ✓ (only workload)         | ✓ (only workload) |                   |
| Kubernetes v1.31 | ✓                         | ✓ (only workload) | ✓ (only workload) |
| Kubernetes v1.33 | ✓                         | ✓                 | ✓                 |
| Kubernetes v1.9  |                           |                   |                   |
| Kubernetes v1.36 | ✓ >= v1.12.8              | ✓ >= v1.13.1      | ✓                 |
| Kubernetes v1.37 |                           | ✓ >= v1.13.6      | ✓ >= v1.14.1      |

### Kubeadm

|                  | v1.13 | v1.14 |
|------------------|-------|-------|
| Kubernetes v1.20 | ✓     | ✓     |
`

func TestSupportedVersionsAreReadFromUpstreamsPage(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		version string
		want    map[string]*span
	}{
		"a patch release that is new enough for the latest": {
			version: "v1.14.2",
			want:    map[string]*span{"management": {"v1.33.0", "v1.37.99"}, "workload": {"v1.31.0", "v1.37.99"}},
		},
		"a patch release that is too old for the latest": {
			version: "v1.13.4",
			want:    map[string]*span{"management": {"v1.33.0", "v1.36.99"}, "workload": {"v1.30.0", "v1.36.99"}},
		},
		"a column with a remark in its title": {
			version: "v1.12.8",
			want:    map[string]*span{"management": {"v1.31.0", "v1.36.99"}, "workload": {"v1.30.0", "v1.36.99"}},
		},
		"a version the page does not have": {version: "v1.11.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(parseSupport(supportPage, tc.version), tc.want); diff != "" {
				t.Errorf("ranges (-got +want):\n%s", diff)
			}
		})
	}
}

// fakeBundles writes bundles as they are in the cache.
func fakeBundles(t *testing.T, version string) (clusterAPI, certManager Bundle) {
	t.Helper()
	clusterAPI = Bundle{Set: build.Set{Name: "cluster-api", Version: version}, Dir: t.TempDir()}
	writeTree(t, clusterAPI.Dir, map[string]string{metadataFile: "metadata " + version, supportFile: supportPage})
	for _, p := range Providers() {
		writeTree(t, clusterAPI.Dir, map[string]string{p.Component + ".yaml": p.Component + " " + version})
	}
	certManager = Bundle{Set: build.Set{Name: "cert-manager", Version: "v1.20.3"}, Dir: t.TempDir()}
	writeTree(t, certManager.Dir, map[string]string{certManagerFile: "cert-manager v1.20.3"})
	return clusterAPI, certManager
}

const wantRelease = `apiVersion: capstan.dev/v1alpha1
kind: Release
metadata:
  name: capi-v1.14.2
spec:
  version: v1.14.2
  upgradeFrom:
    - v1.13.4
  kubernetes:
    management:
      min: v1.33.0
      max: v1.37.99
    workload:
      min: v1.31.0
      max: v1.37.99
  components:
    - name: cert-manager
      type: manifest
      version: v1.20.3
      source:
        path: components/cert-manager.yaml
        digest: sha256:DIGEST(cert-manager v1.20.3)
    - name: cluster-api
      type: provider
      provider:
        name: cluster-api
        type: CoreProvider
        namespace: capi-system
      version: v1.14.2
      source:
        path: components/cluster-api.yaml
        digest: sha256:DIGEST(cluster-api v1.14.2)
      metadata:
        path: components/cluster-api-metadata.yaml
        digest: sha256:DIGEST(metadata v1.14.2)
      needs:
        - cert-manager
      variables:
        CLUSTER_TOPOLOGY: "true"
`

func TestAReleaseNamesItsFilesByDigest(t *testing.T) {
	t.Parallel()
	clusterAPI, certManager := fakeBundles(t, "v1.14.2")
	dir := t.TempDir()
	file, err := Release{
		ClusterAPI: clusterAPI, CertManager: certManager, UpgradeFrom: []string{"v1.13.4"},
		Variables: map[string]string{"CLUSTER_TOPOLOGY": "true"},
	}.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := wantRelease
	for _, content := range []string{"cert-manager v1.20.3", "cluster-api v1.14.2", "metadata v1.14.2"} {
		want = strings.ReplaceAll(want, "DIGEST("+content+")", fmt.Sprintf("%x", sha256.Sum256([]byte(content))))
	}
	// The other three providers look the same; the first shows the form.
	got, _, found := strings.Cut(string(text), "    - name: bootstrap-kubeadm\n")
	if !found {
		t.Error("the release has no bootstrap provider")
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("release (-got +want):\n%s", diff)
	}
	checkSources(t, dir, text)
}

// checkSources reads the release as a client would and compares each file with its digest, and needs with names.
func checkSources(t *testing.T, dir string, text []byte) {
	t.Helper()
	var release struct {
		Spec struct {
			Components []struct {
				Name             string
				Source, Metadata struct{ Path, Digest string }
				Needs            []string
			}
		}
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	if got := len(release.Spec.Components); got != 5 {
		t.Errorf("release has %d components, want 5", got)
	}
	earlier := map[string]bool{}
	for _, c := range release.Spec.Components {
		for _, from := range []struct{ Path, Digest string }{c.Source, c.Metadata} {
			if from.Path == "" {
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, from.Path))
			if err != nil {
				t.Error(err)
			}
			if want := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); from.Digest != want {
				t.Errorf("digest of %s is %s, want %s", from.Path, from.Digest, want)
			}
		}
		for _, need := range c.Needs {
			if !earlier[need] {
				t.Errorf("%s needs %s, which does not come before it", c.Name, need)
			}
		}
		earlier[c.Name] = true
	}
}

func TestARepositoryIsLaidOutForClusterctl(t *testing.T) {
	t.Parallel()
	old, certManager := fakeBundles(t, "v1.13.4")
	next, _ := fakeBundles(t, "v1.14.2")
	dir := t.TempDir()
	configPath, err := Repository{
		ClusterAPI: []Bundle{next, old}, CertManager: certManager, Variables: map[string]string{"CLUSTER_TOPOLOGY": "true"},
	}.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(configPath)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`CLUSTER_TOPOLOGY: "true"
cert-manager:
  url: file://DIR/cert-manager/v1.20.3/cert-manager.yaml
  version: v1.20.3
overridesFolder: DIR/overrides
providers:
- name: cluster-api
  type: CoreProvider
  url: file://DIR/cluster-api/v1.13.4/core-components.yaml
- name: kubeadm
  type: BootstrapProvider
  url: file://DIR/bootstrap-kubeadm/v1.13.4/bootstrap-components.yaml
- name: kubeadm
  type: ControlPlaneProvider
  url: file://DIR/control-plane-kubeadm/v1.13.4/control-plane-components.yaml
- name: docker
  type: InfrastructureProvider
  url: file://DIR/infrastructure-docker/v1.13.4/infrastructure-components.yaml
`, "DIR", dir)
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("clusterctl.yaml (-got +want):\n%s", diff)
	}
	for _, p := range Providers() {
		for _, version := range []string{"v1.13.4", "v1.14.2"} {
			for file, want := range map[string]string{p.File: p.Component + " " + version, metadataFile: "metadata " + version} {
				got, err := os.ReadFile(filepath.Join(dir, p.Component, version, file))
				if err != nil || string(got) != want {
					t.Errorf("%s of %s %s holds %q, %v; want %q", file, p.Component, version, got, err, want)
				}
			}
		}
	}
}

func TestARepositoryNeedsAnAbsolutePathAndAVersion(t *testing.T) {
	t.Parallel()
	clusterAPI, certManager := fakeBundles(t, "v1.13.4")
	if _, err := (Repository{ClusterAPI: []Bundle{clusterAPI}, CertManager: certManager}).Write("relative"); err == nil {
		t.Error("a relative path was taken")
	}
	if _, err := (Repository{CertManager: certManager}).Write(t.TempDir()); err == nil {
		t.Error("a repository without Cluster API was written")
	}
}
