// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/fetch"
	"github.com/capstan-dev/capstan/internal/release"
)

const providerManifest = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: x-system}\n"

// series is clusterctl's metadata with the given minor versions of major version 0.
func series(minors ...int) string {
	out := "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n"
	for _, m := range minors {
		out += fmt.Sprintf("- {major: 0, minor: %d, contract: v1beta1}\n", m)
	}
	return out
}

// providerRelease is a release of one provider with more YAML in the component.
func providerRelease(version, more string) string {
	out := "apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata: {name: r}\nspec:\n  version: v1.0.0\n  components:\n  - name: x\n    type: provider\n" +
		"    provider: {name: x, type: InfrastructureProvider, namespace: x-system}\n" + more
	if version != "" {
		out += "    version: " + version + "\n"
	}
	return out
}

const fromShelf = "    source: {repository: repo}\n"

// shelf is a repository as the bad day has it: a release, a pre-release its metadata does not know, a tag without metadata.
func shelf() map[string]string {
	return map[string]string{
		"repo/infrastructure-x/v0.4.7/infrastructure-components.yaml":     providerManifest,
		"repo/infrastructure-x/v0.4.7/metadata.yaml":                      series(4),
		"repo/infrastructure-x/v0.4.8/infrastructure-components.yaml":     providerManifest,
		"repo/infrastructure-x/v0.4.8/metadata.yaml":                      series(4),
		"repo/infrastructure-x/v0.4.9-rc3/infrastructure-components.yaml": providerManifest,
		"repo/infrastructure-x/v0.4.9-rc3/metadata.yaml":                  series(3),
		"repo/infrastructure-x/v0.4.10/infrastructure-components.yaml":    providerManifest,
		"repo/infrastructure-x/notes/readme.yaml":                         "a: b\n",
	}
}

// choice is which version was taken and what was passed over.
type choice struct {
	Version string
	Skipped []release.Skipped
	Err     report
}

func choose(t *testing.T, content map[string]string, edit func(map[string]string)) choice {
	t.Helper()
	if edit != nil {
		edit(content)
	}
	dir := files(t, content)
	b, err := (&fetch.Fetcher{}).Load(t.Context(), dir)
	if err != nil {
		return choice{Err: reportOf(err, dir, "DIR")}
	}
	for i := range b.Skipped {
		b.Skipped[i].Reason = strings.ReplaceAll(b.Skipped[i].Reason, dir, "DIR")
	}
	return choice{Version: b.Components[0].Component.Version, Skipped: b.Skipped}
}

func TestTheNewestWholeVersionOfARepositoryIsTaken(t *testing.T) {
	t.Parallel()
	rc := release.Skipped{Component: "x", Version: "v0.4.9-rc3", Taken: "v0.4.8", Reason: "it is a pre-release, which has to be asked for by its version"}
	bare := release.Skipped{Component: "x", Version: "v0.4.10", Taken: "v0.4.8", Reason: "there is no repo/infrastructure-x/v0.4.10/metadata.yaml in DIR"}
	cases := map[string]struct {
		version string
		edit    func(map[string]string)
		want    choice
	}{
		"one without metadata and a pre-release are passed over": {want: choice{Version: "v0.4.8", Skipped: []release.Skipped{bare, rc}}},
		"one without manifests too": {
			edit: func(m map[string]string) {
				delete(m, "repo/infrastructure-x/v0.4.10/infrastructure-components.yaml")
				m["repo/infrastructure-x/v0.4.10/metadata.yaml"] = series(4)
			},
			want: choice{Version: "v0.4.8", Skipped: []release.Skipped{
				{Component: "x", Version: "v0.4.10", Taken: "v0.4.8", Reason: "there is no *components.yaml in repo/infrastructure-x/v0.4.10 of DIR"}, rc,
			}},
		},
		"one whose metadata does not know it": {
			edit: func(m map[string]string) { m["repo/infrastructure-x/v0.4.10/metadata.yaml"] = series(3) },
			want: choice{Version: "v0.4.8", Skipped: []release.Skipped{
				{Component: "x", Version: "v0.4.10", Taken: "v0.4.8", Reason: `component "x": the provider metadata has no release series for v0.4.10`}, rc,
			}},
		},
		"nothing is passed over when the newest is whole": {
			edit: func(m map[string]string) { m["repo/infrastructure-x/v0.4.10/metadata.yaml"] = series(4) },
			want: choice{Version: "v0.4.10"},
		},
		"a pre-release that is named": {version: "v0.4.9-rc3", want: choice{Version: "v0.4.9-rc3"}},
		"an older one that is named":  {version: "v0.4.7", want: choice{Version: "v0.4.7"}},
		"one without metadata that is named": {version: "v0.4.10", want: choice{Err: report{
			`DIR/release.yaml:10: component "x": there is no repo/infrastructure-x/v0.4.10/metadata.yaml in DIR`, "NoFile", 2,
		}}},
		"only pre-releases are there": {
			edit: func(m map[string]string) {
				for _, v := range []string{"v0.4.7", "v0.4.8", "v0.4.10"} {
					delete(m, "repo/infrastructure-x/"+v+"/infrastructure-components.yaml")
					delete(m, "repo/infrastructure-x/"+v+"/metadata.yaml")
				}
			},
			want: choice{Err: report{
				`DIR/release.yaml:10: component "x": repo/infrastructure-x of DIR has no version that can be used: v0.4.9-rc3 was skipped, ` +
					`it is a pre-release, which has to be asked for by its version (next: put a version with manifests and metadata.yaml there, or name a pre-release by its version)`,
				"NoVersion", 3,
			}},
		},
		"the repository does not know the provider": {
			edit: func(m map[string]string) {
				for name := range shelf() {
					delete(m, name)
				}
			},
			want: choice{Err: report{`DIR/release.yaml:10: component "x": there is no repo/infrastructure-x in DIR`, "NoFile", 2}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := shelf()
			content["release.yaml"] = providerRelease(tc.version, fromShelf)
			got := choose(t, content, tc.edit)
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestTheNewestWholeReleaseOfADirectoryIsTaken(t *testing.T) {
	t.Parallel()
	at := func(version string) map[string]string {
		return map[string]string{
			version + "/release.yaml": "apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata: {name: r}\nspec:\n  version: " + version +
				"\n  components:\n  - {name: a, type: manifest, version: " + version + ", source: {path: a.yaml}}\n",
			version + "/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		}
	}
	content := map[string]string{"v1.5.0/notes.txt": "soon"}
	for _, v := range []string{"v1.1.0", "v1.2.0", "v1.3.0-rc.1", "v1.4.0"} {
		maps.Copy(content, at(v))
	}
	delete(content, "v1.4.0/a.yaml")
	got := choose(t, content, nil)
	want := choice{Version: "v1.2.0", Skipped: []release.Skipped{
		{Version: "v1.5.0", Taken: "v1.2.0", Reason: "directory DIR/v1.5.0 has no release.yaml"},
		{Version: "v1.4.0", Taken: "v1.2.0", Reason: `component "a": there is no a.yaml in DIR/v1.4.0`},
		{Version: "v1.3.0-rc.1", Taken: "v1.2.0", Reason: "it is a pre-release, which has to be asked for by its version"},
	}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// configMaps are ConfigMaps by namespace/name.
type configMaps map[string]*corev1.ConfigMap

func (c configMaps) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return c[namespace+"/"+name], nil
}

func TestAComponentComesFromConfigMaps(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(providerManifest)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cluster := configMaps{
		"a/plain":  {Data: map[string]string{"components": providerManifest, "metadata": series(4)}},
		"a/packed": {Data: map[string]string{"metadata": series(4)}, BinaryData: map[string][]byte{"components": packed.Bytes()}},
		"a/other":  {Data: map[string]string{"x.yaml": providerManifest}},
	}
	source := func(name, key string) string {
		src := fmt.Sprintf("{configMap: {namespace: a, name: %s%s}}", name, key)
		return "    source: " + src + "\n"
	}
	cases := map[string]struct {
		more    string
		cluster fetch.ConfigMaps
		want    report
	}{
		"manifests and metadata":   {source("plain", "") + "    metadata: {configMap: {namespace: a, name: plain}}\n", cluster, report{}},
		"packed manifests":         {source("packed", ""), cluster, report{}},
		"a key that is named":      {source("other", ", key: x.yaml"), cluster, report{}},
		"a key that is not there":  {source("other", ""), cluster, report{`DIR/release.yaml:10: component "x": ConfigMap a/other has no key "components"`, "NoFile", 2}},
		"a ConfigMap that is gone": {source("gone", ""), cluster, report{`DIR/release.yaml:10: component "x": there is no ConfigMap a/gone (next: kubectl get configmaps -n a)`, "NoFile", 2}},
		"no cluster":               {source("plain", ""), nil, report{`DIR/release.yaml:10: component "x": ConfigMap a/plain can't be read: there is no cluster to look in`, "BadSource", 2}},
		"two places for one content": {"    source: {path: x.yaml, configMap: {namespace: a, name: plain}}\n", cluster, report{
			`DIR/release.yaml:10: spec.components[0].source: exactly one of path, url, oci, configMap and repository is wanted, path and configMap are given`, "BadSource", 2,
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, map[string]string{"release.yaml": providerRelease("v0.4.8", tc.more)})
			b, err := (&fetch.Fetcher{ConfigMaps: tc.cluster}).Load(t.Context(), dir)
			if diff := cmp.Diff(reportOf(err, dir, "DIR"), tc.want); diff != "" {
				t.Fatalf("(-got +want):\n%s", diff)
			}
			if err == nil && len(b.Components[0].Objects) != 2 {
				t.Errorf("%d objects, want the ServiceAccount and its Namespace", len(b.Components[0].Objects))
			}
		})
	}
}

func TestSourcesThatAreNoneOfAComponentsAreRefused(t *testing.T) {
	t.Parallel()
	base := func(more string) string { return providerRelease("", more) }
	cases := map[string]struct{ in, want string }{
		"a repository outside":          {base("    source: {repository: ../repo}\n"), "PathEscapes"},
		"a repository with a digest":    {base("    source: {repository: repo, digest: 'sha256:" + digits + "'}\n"), "BadDigest"},
		"a repository and metadata":     {base("    source: {repository: repo}\n    metadata: {path: m.yaml}\n"), "BadSource"},
		"no version where none is left": {base("    source: {path: x.yaml}\n"), "MissingField"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, map[string]string{"release.yaml": tc.in})
			_, err := (&fetch.Fetcher{}).Load(t.Context(), dir)
			if got := reportOf(err).Reason; got != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

const digits = "0000000000000000000000000000000000000000000000000000000000000000"
