// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
)

const (
	certManagerName = "cert-manager"
	certManagerFile = "cert-manager.yaml"
	// certManagerKube is the version upstream renders its static manifest for.
	certManagerKube = "1.29.0"
)

// certManagerPrograms are the programs of cert-manager as images.
func certManagerPrograms(set build.Set) []program {
	one := func(name, binary string) program {
		return program{
			image: "quay.io/jetstack/cert-manager-" + name + ":" + set.Version, binary: set.Path(binary),
			path: "/app/cmd/" + name + "/" + name, user: nonroot, source: "https://github.com/cert-manager/cert-manager",
		}
	}
	return []program{
		one("controller", build.CertManagerController),
		one("webhook", build.CertManagerWebhook),
		one("cainjector", build.CertManagerCAInjector),
	}
}

// certManagerManifest renders the chart as upstream does for the cert-manager.yaml of a release: namespace, then CRDs, then the
// rest, without the start-up check.
func certManagerManifest(module, version string) ([]byte, error) {
	c, err := certManagerChart(filepath.Join(module, "deploy", "charts", certManagerName), version)
	if err != nil {
		return nil, err
	}
	manifests, err := renderChart(c)
	if err != nil {
		return nil, err
	}
	namespace, err := os.ReadFile(filepath.Join(module, "deploy", "manifests", "namespace.yaml"))
	if err != nil {
		return nil, err
	}
	var crds, others []releaseutil.Manifest
	for _, m := range manifests {
		if m.Head.Kind == "CustomResourceDefinition" {
			crds = append(crds, m)
			continue
		}
		others = append(others, m)
	}
	if len(crds) == 0 || len(others) == 0 {
		return nil, fmt.Errorf("chart gave %d CRDs and %d other objects", len(crds), len(others))
	}
	var out bytes.Buffer
	out.WriteString("# Rendered from the chart of cert-manager " + version + ".\n")
	out.Write(bytes.TrimSpace(namespace))
	for _, m := range slices.Concat(crds, others) {
		out.WriteString("\n---\n# Source: " + m.Name + "\n" + strings.TrimSpace(m.Content))
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// certManagerChart loads the chart from the module. Chart.yaml is there with a placeholder version, in older releases under
// another name.
func certManagerChart(dir, version string) (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if name == "Chart.template.yaml" {
			name = "Chart.yaml"
		}
		files = append(files, &loader.BufferedFile{Name: name, Data: text})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find chart: %w", err)
	}
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, err
	}
	c.Metadata.Version, c.Metadata.AppVersion = version, version
	return c, nil
}

// renderChart renders the templates, in the order in which helm would install them.
func renderChart(c *chart.Chart) ([]releaseutil.Manifest, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	kube, err := chartutil.ParseKubeVersion(certManagerKube)
	if err != nil {
		return nil, err
	}
	caps.KubeVersion = *kube
	values, err := chartutil.ToRenderValues(c, map[string]any{
		"crds":            map[string]any{"enabled": true},
		"creator":         "static",
		"startupapicheck": map[string]any{"enabled": false},
	}, chartutil.ReleaseOptions{Name: certManagerName, Namespace: certManagerName, Revision: 1, IsInstall: true}, caps)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(c, values)
	if err != nil {
		return nil, err
	}
	for name := range texts {
		if path.Base(name) == "NOTES.txt" || strings.HasPrefix(path.Base(name), "_") {
			delete(texts, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(texts, caps.APIVersions, releaseutil.InstallOrder)
	if err == nil && len(hooks) > 0 {
		err = fmt.Errorf("chart has %d hooks, which a static manifest can't have", len(hooks))
	}
	return manifests, err
}
