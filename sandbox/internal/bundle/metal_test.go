// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/sandbox/metal"
)

func TestARepositoryHasBothVersionsOfTheMetalProvider(t *testing.T) {
	t.Parallel()
	clusterAPI, certManager := fakeBundles(t, "v1.14.2")
	dir := t.TempDir()
	config, err := Repository{ClusterAPI: []Bundle{clusterAPI}, CertManager: certManager, Metal: true}.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Providers []struct{ Name, Type, URL string }
	}
	if err := kyaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	last := read.Providers[len(read.Providers)-1]
	if last.Name != "metal3" || last.URL != "file://"+filepath.Join(dir, metalComponent, metal.DefaultVersion, metalFile) {
		t.Errorf("the last provider is %v", last)
	}
	for _, version := range metal.Versions() {
		manifest, err := os.ReadFile(filepath.Join(dir, metalComponent, version, metalFile))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(imagesIn(t, manifest), []string{metal.Image + ":" + version}); diff != "" {
			t.Errorf("images of %s (-got +want):\n%s", version, diff)
		}
	}
}

func TestAReleaseOnMetalHasNoDockerProvider(t *testing.T) {
	t.Parallel()
	clusterAPI, certManager := fakeBundles(t, "v1.14.2")
	file, err := Release{ClusterAPI: clusterAPI, CertManager: certManager, Metal: metal.NextVersion}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Spec struct {
			Components []struct{ Name, Version string }
		}
	}
	if err := kyaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range read.Spec.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	want := []string{
		"cert-manager v1.20.3", "cluster-api v1.14.2", "bootstrap-kubeadm v1.14.2", "control-plane-kubeadm v1.14.2",
		"infrastructure-metal3 " + metal.NextVersion,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("components (-got +want):\n%s", diff)
	}
}

// TestTheMetalProviderKeepsItsContract makes sure of the labels by which Cluster API finds the versions of its kinds.
func TestTheMetalProviderKeepsItsContract(t *testing.T) {
	t.Parallel()
	manifest, err := metal.ProviderManifest(metal.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, u := range documentsIn(t, manifest) {
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		kinds = append(kinds, kind)
		if u.GetLabels()["cluster.x-k8s.io/v1beta2"] != "v1beta2" {
			t.Errorf("%s has labels %v", kind, u.GetLabels())
		}
	}
	for _, kind := range []string{"Metal3Cluster", "Metal3Machine", "Metal3MachineTemplate"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("there is no %s in %v", kind, kinds)
		}
	}
}

func imagesIn(t *testing.T, manifest []byte) []string {
	t.Helper()
	var images []string
	for _, u := range documentsIn(t, manifest) {
		containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			image, _, _ := unstructured.NestedString(c.(map[string]any), "image") //nolint:forcetypeassert // a manifest of ours
			images = append(images, image)
		}
	}
	return images
}

func documentsIn(t *testing.T, manifest []byte) []unstructured.Unstructured {
	t.Helper()
	var all []unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		u := unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
}
