// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// part is one component of a release under test.
type part struct {
	name, version string
	// provider is clusterctl's provider type, "InfrastructureProvider" for example; empty for a plain manifest.
	provider string
	// manifests are YAML documents.
	manifests string
	// metadata is the content of clusterctl's metadata.yaml, if there is one.
	metadata string
	needs    []string
	// more is YAML that goes into the component as it is, indented by six spaces there.
	more string
}

// namespace is where a provider of the test runs.
func (p part) namespace() string { return p.name + "-system" }

// writeRelease makes a release directory. spec is YAML for the release's spec beside version and components, "" for none.
func writeRelease(t *testing.T, version, spec string, parts ...part) string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata:\n  name: under-test\nspec:\n  version: %s\n", version)
	b.WriteString(indent(spec, "  "))
	b.WriteString("  components:\n")
	for _, p := range parts {
		fmt.Fprintf(&b, "    - name: %s\n", p.name)
		if p.version != "" {
			fmt.Fprintf(&b, "      version: %s\n", p.version)
		}
		if p.provider == "" {
			b.WriteString("      type: manifest\n")
		} else {
			fmt.Fprintf(&b, "      type: provider\n      provider: {name: %s, type: %s, namespace: %s}\n", p.name, p.provider, p.namespace())
		}
		if p.manifests != "" {
			fmt.Fprintf(&b, "      source: {path: %s.yaml}\n", p.name)
			file(t, filepath.Join(dir, p.name+".yaml"), p.manifests)
		}
		if p.metadata != "" {
			fmt.Fprintf(&b, "      metadata: {path: %s-metadata.yaml}\n", p.name)
			file(t, filepath.Join(dir, p.name+"-metadata.yaml"), p.metadata)
		}
		if len(p.needs) > 0 {
			fmt.Fprintf(&b, "      needs: [%s]\n", strings.Join(p.needs, ", "))
		}
		b.WriteString(indent(p.more, "      "))
	}
	file(t, filepath.Join(dir, "release.yaml"), b.String())
	return dir
}

func file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func indent(text, by string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	var b strings.Builder
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		b.WriteString(by + l + "\n")
	}
	return b.String()
}

// installed records providers in clusterctl's inventory, as `clusterctl init` would.
func (b *bed) installed(t *testing.T, parts ...part) {
	t.Helper()
	for _, p := range parts {
		label := p.name
		if prefix := prefixes()[p.provider]; prefix != "" {
			label = prefix + p.name
		}
		b.apply(t, fmt.Sprintf(`
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata:
  name: %[1]s
  namespace: %[2]s
  labels: {clusterctl.cluster.x-k8s.io: "", cluster.x-k8s.io/provider: %[1]s}
providerName: %[3]s
type: %[4]s
version: %[5]s
`, label, p.namespace(), p.name, p.provider, p.version))
	}
}

// prefixes are what clusterctl puts before a provider's name in its label.
func prefixes() map[string]string {
	return map[string]string{
		"BootstrapProvider": "bootstrap-", "ControlPlaneProvider": "control-plane-", "InfrastructureProvider": "infrastructure-",
		"IPAMProvider": "ipam-", "RuntimeExtensionProvider": "runtime-extension-", "AddonProvider": "addon-",
	}
}
