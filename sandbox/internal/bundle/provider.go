// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capstan-dev/capstan/sandbox/internal/build"
)

const metadataFile = "metadata.yaml"

// Provider is one of the four Cluster API providers that a sandbox runs.
type Provider struct {
	// Component is the name in a Capstan release and the folder in a clusterctl repository.
	Component string
	// Name and Type are the identity in clusterctl's inventory.
	Name string
	Type string
	// Namespace is where its manifest puts it.
	Namespace string
	// Image is the name of its image, without a tag.
	Image string
	// File is what clusterctl expects the manifest to be called.
	File string

	binary string
	user   string
	// needs are the components that must be there first.
	needs []string
	// configs are the places in its module where its configuration may be, newest first; the module is the test one or not.
	configs []string
	inTest  bool
}

// Providers are the providers, in the order in which they are to be installed.
func Providers() []Provider {
	const production, staging = "registry.k8s.io/cluster-api/", "gcr.io/k8s-staging-cluster-api/"
	return []Provider{
		{
			Component: "cluster-api", Name: "cluster-api", Type: "CoreProvider", Namespace: "capi-system",
			Image: production + "cluster-api-controller", File: "core-components.yaml",
			binary: build.CoreManager, user: nonroot, needs: []string{certManagerName},
			configs: []string{"core/config", "config"}, // it moved in v1.14
		},
		{
			Component: "bootstrap-kubeadm", Name: "kubeadm", Type: "BootstrapProvider", Namespace: "capi-kubeadm-bootstrap-system",
			Image: production + "kubeadm-bootstrap-controller", File: "bootstrap-components.yaml",
			binary: build.BootstrapManager, user: nonroot, needs: []string{certManagerName, "cluster-api"},
			configs: []string{"bootstrap/kubeadm/config"},
		},
		{
			Component: "control-plane-kubeadm", Name: "kubeadm", Type: "ControlPlaneProvider", Namespace: "capi-kubeadm-control-plane-system",
			Image: production + "kubeadm-control-plane-controller", File: "control-plane-components.yaml",
			binary: build.ControlPlaneManager, user: nonroot, needs: []string{certManagerName, "cluster-api", "bootstrap-kubeadm"},
			configs: []string{"controlplane/kubeadm/config"},
		},
		{
			// Upstream publishes this one for development only: the image is in the staging registry, and runs as root.
			Component: "infrastructure-docker", Name: "docker", Type: "InfrastructureProvider", Namespace: "capd-system",
			Image: staging + "capd-manager", File: "infrastructure-components.yaml",
			binary: build.DockerManager, user: root, needs: []string{certManagerName, "cluster-api"},
			configs: []string{"infrastructure/docker/config"}, inTest: true,
		},
	}
}

// program is the provider's manager as an image.
func (p Provider) program(set build.Set) program {
	return program{
		image: p.Image + ":" + set.Version, binary: set.Path(p.binary), path: "/manager", user: p.user,
		source: "https://github.com/kubernetes-sigs/cluster-api",
	}
}

// manifest runs kustomize on the provider's configuration, the way upstream makes a release. core and test are the directories
// of Cluster API's modules.
func (p Provider) manifest(core, test, version string) ([]byte, error) {
	module := core
	if p.inTest {
		module = test
	}
	config, err := findConfig(module, p.configs)
	if err != nil {
		return nil, err
	}
	memory := filesys.MakeFsInMemory()
	if err := copyInto(memory, config); err != nil {
		return nil, err
	}
	if err := setImage(memory, p.Image+":"+version); err != nil {
		return nil, err
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/config/default")
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", config, err)
	}
	return resources.AsYaml()
}

func findConfig(module string, places []string) (string, error) {
	for _, place := range places {
		dir := filepath.Join(module, filepath.FromSlash(place))
		if _, err := os.Stat(filepath.Join(dir, "default", "kustomization.yaml")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find configuration in %s: none of %v has a default/kustomization.yaml", module, places)
}

// copyInto copies a configuration to /config of a file system in memory: the module cache is read-only, and others use it.
func copyInto(memory filesys.FileSystem, dir string) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
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
		return memory.WriteFile(path.Join("/config", filepath.ToSlash(rel)), text)
	})
}

// setImage edits the two patches that upstream's release edits.
func setImage(memory filesys.FileSystem, image string) error {
	edits := []struct{ file, field, value string }{
		{"/config/default/manager_image_patch.yaml", "image", image},
		{"/config/default/manager_pull_policy.yaml", "imagePullPolicy", "IfNotPresent"},
	}
	for _, e := range edits {
		text, err := memory.ReadFile(e.file)
		if err != nil {
			return err
		}
		field := regexp.MustCompile(`(?m)\b` + e.field + `: .*$`)
		if !field.Match(text) {
			return fmt.Errorf("set %s in %s: the file has no such field", e.field, e.file)
		}
		text = field.ReplaceAllLiteral(text, []byte(e.field+": "+e.value))
		if err := memory.WriteFile(e.file, text); err != nil {
			return err
		}
	}
	return nil
}
