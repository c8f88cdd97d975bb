// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
)

func manifest(name string, needs ...string) v1alpha1.Component {
	return v1alpha1.Component{Name: name, Type: v1alpha1.ComponentManifest, Version: "v1.0.0", Needs: needs, Source: v1alpha1.Source{Path: name + ".yaml"}}
}

func provider(name, providerType string, needs ...string) v1alpha1.Component {
	c := manifest(name, needs...)
	c.Type = v1alpha1.ComponentProvider
	c.Provider = &v1alpha1.ProviderIdentity{Name: name, Type: providerType, Namespace: name + "-system"}
	return c
}

func TestOrderFollowsNeedsWhateverTheListing(t *testing.T) {
	t.Parallel()
	components := []v1alpha1.Component{
		provider("docker", "InfrastructureProvider", "core"),
		provider("kubeadm-control-plane", "ControlPlaneProvider", "core", "kubeadm-bootstrap"),
		provider("kubeadm-bootstrap", "BootstrapProvider", "core"),
		provider("core", "CoreProvider", "cert-manager"),
		manifest("dashboards"),
		manifest("cert-manager"),
	}
	want := [][]string{{"cert-manager", "dashboards"}, {"core"}, {"kubeadm-bootstrap"}, {"kubeadm-control-plane"}, {"docker"}}
	for range 20 {
		seed := rand.Uint64()                                                                                                                   //nolint:gosec // an order to try needs no secrecy
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(components), func(i, j int) { components[i], components[j] = components[j], components[i] }) //nolint:gosec // see above
		got, err := release.Order(components)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got.Levels, want); diff != "" {
			t.Fatalf("seed %d (-got +want):\n%s", seed, diff)
		}
	}
	got, err := release.Order(components)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Names(), []string{"cert-manager", "dashboards", "core", "kubeadm-bootstrap", "kubeadm-control-plane", "docker"}); diff != "" {
		t.Errorf("names (-got +want):\n%s", diff)
	}
}

func TestOrderOfTypesHoldsWithoutAnyNeed(t *testing.T) {
	t.Parallel()
	components := []v1alpha1.Component{
		provider("x", "InfrastructureProvider"), provider("core", "CoreProvider"), provider("boot", "BootstrapProvider"), provider("cp", "ControlPlaneProvider"),
		provider("addon", "AddonProvider"), provider("ipam", "IPAMProvider"), provider("ext", "RuntimeExtensionProvider"), manifest("cert-manager"),
		provider("other-boot", "BootstrapProvider"),
	}
	want := [][]string{{"cert-manager"}, {"core"}, {"boot", "other-boot"}, {"cp"}, {"x", "ipam", "ext", "addon"}}
	for range 50 {
		seed := rand.Uint64()                                                                                                                   //nolint:gosec // an order to try needs no secrecy
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(components), func(i, j int) { components[i], components[j] = components[j], components[i] }) //nolint:gosec // see above
		got, err := release.Order(components)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got.Levels, want); diff != "" {
			t.Fatalf("seed %d (-got +want):\n%s", seed, diff)
		}
	}
}

func TestANeedCountsMoreThanTheOrderOfTypes(t *testing.T) {
	t.Parallel()
	got, err := release.Order([]v1alpha1.Component{
		provider("core", "CoreProvider", "ipam"), provider("cp", "ControlPlaneProvider"), provider("ipam", "IPAMProvider"), manifest("cert-manager", "storage"), manifest("storage"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Levels, [][]string{{"storage"}, {"cert-manager"}, {"ipam"}, {"core"}, {"cp"}}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	want := map[string][]string{
		"storage": nil, "cert-manager": {"storage"}, "ipam": {"cert-manager"}, "core": {"ipam", "cert-manager"}, "cp": {"cert-manager", "core"},
	}
	if diff := cmp.Diff(got.Needs, want); diff != "" {
		t.Errorf("needs (-got +want):\n%s", diff)
	}
}

func TestOrderRefusesWhatHasNone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in   []v1alpha1.Component
		want report
	}{
		"a circle of three": {
			[]v1alpha1.Component{manifest("x"), manifest("a", "c", "x"), manifest("b", "a"), manifest("c", "b")},
			report{"components need each other in a circle: a -> c -> b -> a", "NeedCycle", 2},
		},
		"a circle is named even behind one that waits for it": {
			[]v1alpha1.Component{manifest("a", "b"), manifest("b", "c"), manifest("c", "b")},
			report{"components need each other in a circle: b -> c -> b", "NeedCycle", 2},
		},
		"an unknown need": {
			[]v1alpha1.Component{manifest("a"), manifest("b", "z")},
			report{"components need others that are not in the release: b", "UnknownNeed", 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := release.Order(tc.in)
			if diff := cmp.Diff(reportOf(err), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}
