// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/fetch"
	"github.com/capstan-dev/capstan/internal/release"
)

const releaseYAML = `apiVersion: capstan.dev/v1alpha1
kind: Release
metadata: {name: r}
spec:
  version: v1.0.0
  components:
  - name: app
    type: manifest
    version: v1.2.3
    source: {path: app}
    needs: [base]
  - name: base
    type: manifest
    version: v0.1.0
    source: {path: base.yaml}
`

func platform() map[string]string {
	return map[string]string{
		"release.yaml": releaseYAML,
		"base.yaml":    "apiVersion: v1\nkind: Namespace\nmetadata: {name: base}\n",
		"app/a.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: base}\n",
		"app/b.yaml":   "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: b, namespace: base}\n",
	}
}

// shape is a bundle in short.
func shape(b *release.Bundle) []string {
	if b == nil {
		return nil
	}
	lines := []string{b.Release.Name + " " + b.Release.Spec.Version}
	for _, c := range b.Components {
		line := c.Component.Name + ":"
		for _, o := range c.Objects {
			line += " " + o.GetKind() + "/" + o.GetName()
		}
		lines = append(lines, line)
	}
	return lines
}

func TestLoadBringsTheWholeReleaseFromAnyPlace(t *testing.T) {
	t.Parallel()
	dir := files(t, platform())
	r := newRegistry(t)
	r.push(t, "platform:v1", tarLayer(t, platform()))
	want := []string{"r v1.0.0", "base: Namespace/base", "app: ServiceAccount/b ConfigMap/a"}
	digests := map[string]bool{}
	for name, ref := range map[string]string{"a directory": dir, "a file": filepath.Join(dir, "release.yaml"), "an artifact": "oci://" + r.host + "/platform:v1"} {
		b, err := (&fetch.Fetcher{}).Load(t.Context(), ref)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(shape(b), want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
		digests[b.Digest] = true
	}
	if len(digests) != 1 {
		t.Errorf("the same release has %d digests", len(digests))
	}
}

// cluster has releases by name.
type cluster map[string]*v1alpha1.Release

var errDown = errors.New("the API server does not answer")

func (c cluster) Release(_ context.Context, name string) (*v1alpha1.Release, error) {
	if name == "down" {
		return nil, errDown
	}
	return c[name], nil
}

func TestLoadFindsAReleaseInTheCluster(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	digest := r.push(t, "base:v1", fileLayer("", "apiVersion: v1\nkind: Namespace\nmetadata: {name: base}\n"))
	in := &v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{Version: "v1.0.0", Components: []v1alpha1.Component{{
		Name: "base", Type: v1alpha1.ComponentManifest, Version: "v1.0.0", Source: v1alpha1.Source{OCI: "oci://" + r.host + "/base:v1", Digest: digest},
	}}}}
	in.Name = "stored"
	withPath := in.DeepCopy()
	withPath.Spec.Components[0].Source = v1alpha1.Source{Path: "base.yaml"}
	f := &fetch.Fetcher{Releases: cluster{"stored": in, "with-path": withPath}}

	b, err := f.Load(t.Context(), "stored")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shape(b), []string{"stored v1.0.0", "base: Namespace/base"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if _, err := f.Load(t.Context(), "down"); !errors.Is(err, errDown) {
		t.Errorf("got %v, want %v", err, errDown)
	}
	for ref, want := range map[string]report{
		"missing":   {"there is no release missing: no such directory or file, and no Release of this name in the cluster", "NoRelease", 2},
		"with-path": {`spec.components[0].source: component "base": base.yaml is a path, but the release is not in a directory (next: use url or oci with a digest, or name the release by its directory)`, "BadSource", 2},
	} {
		_, err := f.Load(t.Context(), ref)
		if diff := cmp.Diff(reportOf(err), want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", ref, diff)
		}
	}
}

func TestLoadAnswersEverythingOrOneError(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	r := newRegistry(t)
	r.push(t, "other:v1", tarLayer(t, map[string]string{"base.yaml": "a: 1\n"}))
	unreachable := "{url: " + gone.URL + "/a.yaml, digest: " + wrongDigest + "}"
	cases := map[string]struct {
		// files of the release directory that differ; "" takes the file away.
		files map[string]string
		// ref is the directory when empty.
		ref  string
		want report
	}{
		"nothing is named":        {ref: "-", want: report{"no release is named (next: give a directory, a file, an oci:// reference or the name of a Release)", "NoRelease", 2}},
		"a path to nothing":       {ref: "./releases/v9", want: report{"there is no release ./releases/v9: no such directory or file", "NoRelease", 2}},
		"an address":              {ref: "https://example.com/release.yaml", want: report{`a release can't be read from "https://example.com/release.yaml" (next: give a directory, a file, an oci:// reference or the name of a Release)`, "NoRelease", 2}},
		"an artifact without one": {ref: "oci://HOST/other:v1", want: report{"oci://HOST/other:v1 has no release.yaml", "NoRelease", 2}},
		"a registry that is not there": {ref: "oci://GONE/other:v1", want: report{
			"oci://GONE/other:v1 can't be fetched: dial tcp GONE: connect: connection refused (next: check the address and the network, then run the command again)", "SourceUnreachable", 3,
		}},
		"a directory without release": {files: map[string]string{"release.yaml": ""}, want: report{
			"directory DIR has no release.yaml (next: give a directory with a release.yaml, or the release file itself)", "NoRelease", 2,
		}},
		"an empty release": {files: map[string]string{"release.yaml": "\n"}, want: report{
			"DIR/release.yaml: the file is empty, a release was expected (next: write a document with apiVersion: capstan.dev/v1alpha1 and kind: Release)", "ReleaseEmpty", 2,
		}},
		"a fault in the release": {files: map[string]string{"release.yaml": strings.Replace(releaseYAML, "needs: [base]", "needs: [bass]", 1)}, want: report{
			`DIR/release.yaml:11: spec.components[0].needs[0]: component "app" needs "bass", which is not in the release (next: did you mean "base"?)`, "UnknownNeed", 2,
		}},
		"a missing file": {files: map[string]string{"base.yaml": ""}, want: report{
			`DIR/release.yaml:15: component "base": there is no base.yaml in DIR`, "NoFile", 2,
		}},
		"a broken manifest": {files: map[string]string{"app/b.yaml": "kind: [\n"}, want: report{
			`app/b.yaml:1: component "app": document 1 is not valid YAML: did not find expected node content`, "BadManifest", 2,
		}},
		"another digest": {files: map[string]string{"release.yaml": strings.Replace(releaseYAML, "path: base.yaml", "path: base.yaml, digest: "+wrongDigest, 1)}, want: report{
			`DIR/release.yaml:15: component "base": base.yaml is not what the release names: its digest is ` + release.Digest([]byte(platform()["base.yaml"])) + ", want " + wrongDigest +
				" (next: find out who changed it; if the change is meant, write the new digest into the release)", "DigestMismatch", 3,
		}},
		"an unreachable address": {files: map[string]string{"release.yaml": strings.Replace(releaseYAML, "{path: base.yaml}", unreachable, 1)}, want: report{
			`DIR/release.yaml:15: component "base": http://GONE/a.yaml can't be fetched: dial tcp GONE: connect: connection refused (next: check the address and the network, then run the command again)`, "SourceUnreachable", 3,
		}},
		"two faults are answered in the order of the release": {files: map[string]string{"base.yaml": "", "app/b.yaml": "kind: [\n"}, want: report{
			`app/b.yaml:1: component "app": document 1 is not valid YAML: did not find expected node content (and 1 more component can't be loaded)`, "BadManifest", 2,
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := platform()
			for file, text := range tc.files {
				content[file] = text
				if text == "" {
					delete(content, file)
				}
			}
			dir := files(t, content)
			hosts := []string{"HOST", r.host, "GONE", strings.TrimPrefix(gone.URL, "http://")}
			ref := strings.NewReplacer(hosts...).Replace(tc.ref)
			switch ref {
			case "":
				ref = dir
			case "-":
				ref = ""
			}
			b, err := (&fetch.Fetcher{}).Load(t.Context(), ref)
			if b != nil {
				t.Errorf("got a bundle: %v", shape(b))
			}
			if diff := cmp.Diff(reportOf(err, dir, "DIR", hosts[1], "HOST", hosts[3], "GONE"), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestAnInterruptEndsALoad(t *testing.T) {
	t.Parallel()
	server, _ := web(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := files(t, map[string]string{"release.yaml": strings.NewReplacer(
		"{path: base.yaml}", "{url: "+server.URL+"/good.yaml, digest: "+wrongDigest+"}",
		"{path: app}", "{url: "+server.URL+"/good.yaml, digest: "+wrongDigest+"}").Replace(releaseYAML)})
	if _, err := (&fetch.Fetcher{}).Load(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
