// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// fromShelf is a release whose only component comes from a repository beside it, with a version or without.
func fromShelf(t *testing.T, version string) string {
	t.Helper()
	p := infraProvider(version, "")
	p.manifests, p.more = "", "source: {repository: repo}"
	dir := writeRelease(t, "v1.1.0", "", p)
	put := func(version string, files map[string]string) {
		for name, text := range files {
			file(t, filepath.Join(dir, "repo", "infrastructure-x", version, name), text)
		}
	}
	put("v0.4.8", map[string]string{"infrastructure-components.yaml": account("x"), "metadata.yaml": seriesOf("0.4 v1beta1")})
	put("v0.4.9-rc3", map[string]string{"infrastructure-components.yaml": account("x"), "metadata.yaml": seriesOf("0.3 v1beta1")})
	put("v0.4.10", map[string]string{"infrastructure-components.yaml": account("x")})
	return dir
}

func TestC78_PreReleasesAndTagsWithoutFilesArePassedOver(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	r := b.capstan(t, "plan", fromShelf(t, ""))
	want(t, r, problem.ExitDone, "x     provider  -     v0.4.8",
		"Version v0.4.9-rc3 of component x was skipped and v0.4.8 taken: it is a pre-release",
		"Version v0.4.10 of component x was skipped and v0.4.8 taken: there is no repo/infrastructure-x/v0.4.10/metadata.yaml")
	if n := strings.Count(r.stdout, "CAP-VERSION-SKIPPED"); n != 2 {
		t.Errorf("%d warnings about skipped versions, want 2:\n%s", n, r.stdout)
	}

	b.installed(t, infraProvider("v0.4.8", ""))
	up := b.capstan(t, "plan", fromShelf(t, ""))
	want(t, up, problem.ExitDone, "x     provider  v0.4.8  v0.4.8")
}

func TestC78_PreReleaseOnlyOnRequest(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	dir := fromShelf(t, "v0.4.9-rc3")
	said := []string{"CAP-PRERELEASE", "Component x would move to v0.4.9-rc3, a pre-release", "--allow-prerelease"}
	b.refused(t, b.capstan(t, "plan", dir), said...)
	b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), said...)
	want(t, b.capstan(t, "plan", dir, "--allow-prerelease"), problem.ExitDone, "v0.4.9-rc3", "capstan upgrade "+dir+" --allow-prerelease")
	lacks(t, b.capstan(t, "plan", fromShelf(t, ""), "--allow-prerelease"), "to v0.4.9-rc3")
}

func TestC78_NewestWholeReleaseOfADirectory(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	dir := t.TempDir()
	release := func(version string, whole bool) {
		file(t, filepath.Join(dir, version, "release.yaml"), "apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata: {name: r}\nspec:\n  version: "+version+
			"\n  components:\n  - {name: tool, type: manifest, version: "+version+", source: {path: tool.yaml}}\n")
		if whole {
			file(t, filepath.Join(dir, version, "tool.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tool, namespace: default}\n")
		}
	}
	release("v1.0.0", true)
	release("v1.1.0", true)
	release("v1.2.0-rc.1", true)
	release("v1.3.0", false)
	want(t, b.capstan(t, "plan", dir), problem.ExitDone, "Release r v1.1.0", "Version v1.2.0-rc.1 of the release was skipped and v1.1.0 taken", "Version v1.3.0 of the release was skipped and v1.1.0 taken")
	b.refused(t, b.capstan(t, "plan", filepath.Join(dir, "v1.2.0-rc.1")), "CAP-PRERELEASE", "Release v1.2.0-rc.1 is a pre-release")
	want(t, b.capstan(t, "plan", filepath.Join(dir, "v1.2.0-rc.1"), "--allow-prerelease"), problem.ExitDone)
}
