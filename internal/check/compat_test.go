// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// compat is a release that meets a management cluster.
type compat struct {
	w *world.World
	t *check.Target
}

// meets is release v2.0.0 on a healthy cluster at Kubernetes v1.36.3, with nothing in either.
func meets() *compat {
	return &compat{
		w: &world.World{
			Management: world.Management{KubernetesVersion: "v1.36.3", ClusterAPIVersion: "cluster.x-k8s.io/v1beta2"},
			Survey:     &world.Survey{Looked: map[world.Topic]string{world.TopicContracts: "", world.TopicDependents: ""}, Contracts: &world.Contracts{}},
		},
		t: &check.Target{Bundle: &release.Bundle{Release: &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.ReleaseSpec{Version: "v2.0.0"}}}},
	}
}

// with adds a component; change may be nil.
func (c *compat) with(name, providerType, from, to string, change func(*release.Rendered)) *compat {
	r := &release.Rendered{Component: v1alpha1.Component{Name: name, Type: v1alpha1.ComponentManifest, Version: to}}
	if providerType != "" {
		r.Component.Type = v1alpha1.ComponentProvider
		r.Component.Provider = &v1alpha1.ProviderIdentity{Name: name, Type: providerType, Namespace: name + "-system"}
		if from != "" {
			c.installed(name, providerType, from)
		}
	}
	if change != nil {
		change(r)
	}
	action := v1alpha1.ActionUpgrade
	switch from {
	case "":
		action = v1alpha1.ActionInstall
	case to:
		action = v1alpha1.ActionNone
	}
	c.t.Bundle.Components = append(c.t.Bundle.Components, r)
	c.t.Components = append(c.t.Components, v1alpha1.PlannedComponent{
		Name: name, Type: r.Component.Type, Provider: r.Component.Provider, From: from, To: to, Action: action,
	})
	return c
}

func (c *compat) installed(name, providerType, version string) *compat {
	c.w.Management.Providers = append(c.w.Management.Providers, world.Provider{
		ManifestLabel: clusterctlv1.ManifestLabel(name, clusterctlv1.ProviderType(providerType)), Name: name, Type: providerType, Namespace: name + "-system", Version: version,
	})
	return c
}

// cluster adds a workload cluster with a control plane of a kind and Machines of versions.
func (c *compat) cluster(name, version, kind string, machines ...string) *compat {
	one := world.Cluster{Namespace: "a", Name: name, Version: version}
	if kind != "" {
		one.Owners = []world.Owner{{Ref: world.Ref{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: kind, Namespace: "a", Name: name}}}
	}
	for _, v := range machines {
		one.Machines = append(one.Machines, world.Machine{Name: name + v, Version: v})
	}
	c.w.Clusters = append(c.w.Clusters, one)
	return c
}

// finds runs one check and returns its findings as "Verdict: summary -> remedy".
func (c *compat) finds(t *testing.T, id string) []string {
	t.Helper()
	var out []string
	for _, one := range check.All() {
		if one.ID != id {
			continue
		}
		for _, f := range check.Run([]check.Check{one}, c.w, c.t) {
			out = append(out, string(f.Verdict)+": "+f.Summary+" -> "+f.Remedy)
		}
		return out
	}
	t.Fatalf("there is no check %s", id)
	return nil
}

func series(contract string, minors ...int32) *clusterctlv1.Metadata {
	m := &clusterctlv1.Metadata{}
	for _, minor := range minors {
		m.ReleaseSeries = append(m.ReleaseSeries, clusterctlv1.ReleaseSeries{Major: 0, Minor: minor, Contract: contract}, clusterctlv1.ReleaseSeries{Major: 1, Minor: minor, Contract: contract})
	}
	return m
}

// speaks gives a component metadata.
func speaks(m *clusterctlv1.Metadata, contract string) func(*release.Rendered) {
	return func(r *release.Rendered) {
		r.Metadata, r.Contract = m, contract
		r.Component.Metadata = &v1alpha1.Source{Path: r.Component.Name + "-metadata.yaml"}
	}
}

// definition is a CRD with labels and versions.
func definition(name string, labels map[string]string, versions ...string) *unstructured.Unstructured {
	var list []any
	for _, v := range versions {
		list = append(list, map[string]any{"name": v})
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": map[string]any{"versions": list},
	}}
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

func labelled(name string, contracts ...string) func(*release.Rendered) {
	return func(r *release.Rendered) {
		labels := map[string]string{}
		for _, c := range contracts {
			labels["cluster.x-k8s.io/"+c] = c
		}
		r.Objects = append(r.Objects, definition(name, labels, "v1"))
	}
}

const infra, core = "InfrastructureProvider", "CoreProvider"

func TestContracts(t *testing.T) {
	t.Parallel()
	future := speaks(series("v1beta3", 12), "v1beta3")
	now := speaks(series("v1beta2", 12), "v1beta2")
	metadata := func(contract string) []world.ProviderMetadata {
		return []world.ProviderMetadata{{Source: "ConfigMap capx/v0.9.0", Name: "x", Type: "infrastructure", Version: "v0.9.0", Text: "releaseSeries:\n- {major: 0, minor: 9, contract: " + contract + "}\n"}}
	}
	for name, tc := range map[string]struct {
		given *compat
		want  []string
	}{
		"one contract in common is enough":   {given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", now).with("x", infra, "v0.9.0", "v0.9.1", labelled("xs.infrastructure.cluster.x-k8s.io", "v1alpha4", "v1beta2"))},
		"the core provider's own counts too": {given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", now).with("x", infra, "v0.9.0", "v0.9.1", speaks(series("v1beta2", 9), "v1beta2"))},
		"labels say more than metadata": {given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", future).with("x", infra, "v0.9.0", "v0.9.1", func(r *release.Rendered) {
			speaks(series("v1beta2", 9), "v1beta2")(r)
			labelled("xs.infrastructure.cluster.x-k8s.io", "v1beta2", "v1beta3")(r)
		})},
		"an older contract that core still knows is a warning": {
			given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", now).with("x", infra, "v0.9.0", "v0.9.1", speaks(series("v1beta1", 9), "v1beta1")),
			want: []string{"Warn: Provider infrastructure-x v0.9.1 speaks contract v1beta1; core provider v1.12.0 speaks v1beta2 and still works with it -> " +
				"plan its move to a version that speaks v1beta2: a later core provider will not know v1beta1"},
		},
		"an older contract that core has dropped blocks": {
			given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", future).with("x", infra, "v0.9.0", "v0.9.1", speaks(series("v1beta2", 9), "v1beta2")),
			want: []string{"Block: Provider infrastructure-x v0.9.1 speaks contract v1beta2, and core provider v1.12.0 works with v1beta3 only: " +
				"no release found for contract v1beta3 in x-metadata.yaml -> use a version of infrastructure-x that speaks v1beta3"},
		},
		"an older contract goes with the API version of its name": {
			given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", func(r *release.Rendered) {
				now(r)
				r.Objects = append(r.Objects, definition("clusters.cluster.x-k8s.io", nil, "v1beta2"))
			}).with("x", infra, "v0.9.0", "v0.9.1", speaks(series("v1beta1", 9), "v1beta1")),
			want: []string{"Block: Provider infrastructure-x v0.9.1 speaks contract v1beta1, and core provider v1.12.0 works with v1beta2 only: " +
				"no release found for contract v1beta2 in x-metadata.yaml -> use a version of infrastructure-x that speaks v1beta2"},
		},
		"metadata that knows a later series says which": {
			given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", future).with("x", infra, "v0.9.0", "v0.9.1", func(r *release.Rendered) {
				m := series("v1beta2", 9)
				m.ReleaseSeries = append(m.ReleaseSeries, clusterctlv1.ReleaseSeries{Major: 1, Minor: 0, Contract: "v1beta3"})
				speaks(m, "v1beta2")(r)
			}),
			want: []string{"Block: Provider infrastructure-x v0.9.1 speaks contract v1beta2, and core provider v1.12.0 works with v1beta3 only: " +
				"x-metadata.yaml has v1.0 for contract v1beta3 -> use a version of infrastructure-x that speaks v1beta3"},
		},
		"a provider that stays, by its CRDs' labels": {
			given: func() *compat {
				c := meets().with("cluster-api", core, "v1.10.8", "v1.12.0", future).installed("x", infra, "v0.9.0")
				c.w.Survey.Contracts.CRDs = []world.ProviderCRD{{Name: "xs.infrastructure.cluster.x-k8s.io", Provider: "infrastructure-x", Labels: map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1"}}}
				return c
			}(),
			want: []string{"Block: Provider infrastructure-x v0.9.0, which is not part of the release, speaks contract v1beta1, and core provider v1.12.0 works with v1beta3 only: " +
				"no release found for contract v1beta3 in the cluster -> add a version of infrastructure-x that speaks v1beta3 to the release, or stay at a core provider that works with v1beta1"},
		},
		"a provider that stays, by a ConfigMap": {
			given: func() *compat {
				c := meets().with("cluster-api", core, "v1.10.8", "v1.12.0", future).installed("x", infra, "v0.9.0")
				c.w.Survey.Contracts.Metadata = metadata("v1beta1")
				return c
			}(),
			want: []string{"Block: Provider infrastructure-x v0.9.0, which is not part of the release, speaks contract v1beta1, and core provider v1.12.0 works with v1beta3 only: " +
				"no release found for contract v1beta3 in ConfigMap capx/v0.9.0 -> add a version of infrastructure-x that speaks v1beta3 to the release, or stay at a core provider that works with v1beta1"},
		},
		"a provider that stays and speaks the new contract": {given: func() *compat {
			c := meets().with("cluster-api", core, "v1.10.8", "v1.12.0", future).installed("x", infra, "v0.9.0")
			c.w.Survey.Contracts.Metadata = metadata("v1beta3")
			return c
		}()},
		"a core provider that stays counts by its CRDs": {
			given: func() *compat {
				c := meets().installed("cluster-api", core, "v1.10.8").with("x", infra, "v0.9.0", "v1.0.0", speaks(series("v1beta2", 0), "v1beta2"))
				c.w.Survey.Contracts.CRDs = []world.ProviderCRD{{Name: "clusters.cluster.x-k8s.io", Provider: "cluster-api", Versions: []string{"v1alpha4", "v1beta1"}}}
				return c
			}(),
			want: []string{"Block: Provider infrastructure-x v1.0.0 speaks contract v1beta2, and core provider v1.10.8 works with v1beta1 only: " +
				"no release found for contract v1beta1 in x-metadata.yaml -> use a version of infrastructure-x that speaks v1beta1"},
		},
		"a provider that says nothing": {
			given: meets().with("cluster-api", core, "v1.10.8", "v1.12.0", now).with("x", infra, "v0.9.0", "v0.9.1", labelled("xs.infrastructure.cluster.x-k8s.io")),
			want:  []string{"Warn: Provider infrastructure-x v0.9.1 names no contract: it has no metadata, and its CRDs have no label cluster.x-k8s.io/CONTRACT -> add its metadata.yaml to the release"},
		},
		"no core provider anywhere": {given: meets().with("x", infra, "", "v0.9.1", speaks(series("v1beta1", 9), "v1beta1"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.given.finds(t, "CAP-CONTRACT"), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestTheMatrixHasEveryProvider(t *testing.T) {
	t.Parallel()
	c := meets().with("x", infra, "v0.9.0", "v0.9.1", speaks(series("v1beta1", 9), "v1beta1")).installed("y", "IPAMProvider", "v0.1.0").
		with("cluster-api", core, "v1.10.8", "v1.12.0", speaks(series("v1beta2", 12), "v1beta2"))
	want := []v1alpha1.ProviderContracts{
		{Provider: "cluster-api", Version: "v1.12.0", Contracts: []string{"v1beta2", "v1beta1"}, Source: "cluster-api-metadata.yaml"},
		{Provider: "infrastructure-x", Version: "v0.9.1", Contracts: []string{"v1beta1"}, Source: "x-metadata.yaml"},
		{Provider: "ipam-y", Version: "v0.1.0", Stays: true},
	}
	if diff := cmp.Diff(check.Contracts(c.w, c.t), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestKubernetesRanges(t *testing.T) {
	t.Parallel()
	needs := func(low, high string) func(*release.Rendered) {
		return func(r *release.Rendered) {
			r.Component.Kubernetes = &v1alpha1.KubernetesRanges{
				Management: &v1alpha1.VersionRange{Min: low, Max: high}, Workload: &v1alpha1.VersionRange{Min: low, Max: high},
			}
		}
	}
	at := func(c *compat, version string) *compat { c.w.Management.KubernetesVersion = version; return c }
	for name, tc := range map[string]struct {
		given *compat
		want  []string
	}{
		"nothing is said":                        {given: meets().with("a", "", "v1.0.0", "v1.1.0", nil)},
		"within":                                 {given: meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.36", "v1.36"))},
		"the lowest of a distribution is enough": {given: at(meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.36.3", "")), "v1.36.3-eks-abc")},
		"the lowest of k3s is enough":            {given: at(meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.36.3", "")), "v1.36.3+k3s1")},
		"the management cluster is too old": {
			given: at(meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.36", "")), "v1.35.9-gke.1"),
			want: []string{"Block: Kubernetes v1.35.9-gke.1 of the management cluster is too old for component a v1.1.0, which needs at least v1.36.0 -> " +
				"move it to Kubernetes v1.36.0 or higher first, or choose another release"},
		},
		"the strictest component comes first": {
			given: at(meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.33", "")).with("b", "", "v1.0.0", "v1.1.0", needs("v1.34", "")).with("c", "", "", "v1.0.0", needs("v1.20", "")), "v1.32.1"),
			want: []string{"Block: Kubernetes v1.32.1 of the management cluster is too old for component b v1.1.0, which needs at least v1.34.0; " +
				"also outside what these support: component a v1.1.0 (v1.33 or higher) -> move it to Kubernetes v1.34.0 or higher first, or choose another release"},
		},
		"the management cluster is too new": {
			given: at(meets().with("a", "", "v1.0.0", "v1.1.0", needs("", "v1.35")), "v1.36.0"),
			want:  []string{"Block: Kubernetes v1.36.0 of the management cluster is too new for component a v1.1.0, which supports v1.35 or lower -> choose a release that supports Kubernetes v1.36.0"},
		},
		"a version of no form": {
			given: at(meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.35", "")), "main"),
			want:  []string{`Unknown: The Kubernetes version of the management cluster can't be read: "main" is not a semantic version with a leading v, such as v1.2.3 -> look at the cluster's version`},
		},
		"workload clusters of one version are named together, and lagging Machines count": {
			given: meets().with("a", "", "v1.0.0", "v1.1.0", needs("v1.34", "")).
				cluster("one", "v1.33.1", "").cluster("two", "v1.33.1", "").cluster("three", "v1.33.1", "").cluster("four", "v1.33.1", "").cluster("five", "v1.34.0", "", "v1.33.1"),
			want: []string{"Block: Kubernetes v1.33.1 of cluster a/one, cluster a/two, cluster a/three and 2 more is too old for component a v1.1.0, which needs at least v1.34.0 -> " +
				"move it to Kubernetes v1.34.0 or higher first, or choose another release"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.given.finds(t, "CAP-KUBERNETES-RANGE"), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestVersionOrder(t *testing.T) {
	t.Parallel()
	edges := func(c *compat, platform string, from ...string) *compat {
		c.t.PlatformVersion, c.t.Bundle.Release.Spec.UpgradeFrom = platform, from
		return c
	}
	for name, tc := range map[string]struct {
		given *compat
		id    string
		want  []string
	}{
		"another major version": {meets().with("a", "", "v1.9.0", "v2.0.0", nil), "CAP-MAJOR-JUMP", []string{
			"Block: Component a would move to another major version, from v1.9.0 to v2.0.0 -> read what its makers say about it, or choose a release with a at v1",
		}},
		"from v0 to v1":                       {meets().with("a", infra, "v0.9.0", "v1.0.0", nil), "CAP-MAJOR-JUMP", []string{"Block: Component a would move to another major version, from v0.9.0 to v1.0.0 -> read what its makers say about it, or choose a release with a at v0"}},
		"a first install jumps nowhere":       {meets().with("a", "", "", "v2.0.0", nil), "CAP-MAJOR-JUMP", nil},
		"backwards is no jump":                {meets().with("a", "", "v2.0.0", "v1.0.0", nil), "CAP-MAJOR-JUMP", nil},
		"a major jump is no skip":             {meets().with("a", infra, "v1.9.0", "v2.0.0", nil), "CAP-SKIPPED-MINORS", nil},
		"four minor versions at once":         {meets().with("a", infra, "v1.9.0", "v1.13.0", nil), "CAP-SKIPPED-MINORS", []string{"Block: Component a would jump from v1.9.0 to v1.13.0, more than 3 minor versions at once -> upgrade to a release in between first"}},
		"the platform's own major version":    {edges(meets(), "v1.4.0"), "CAP-MAJOR-JUMP", []string{"Block: Release v2.0.0 is of another major version than v1.4.0, which is installed, and does not say that it may follow it -> read what its makers say about it; they may list v1.4.0 under upgradeFrom"}},
		"a major version that it may follow":  {edges(meets(), "v1.4.0", "v1.4.0"), "CAP-MAJOR-JUMP", nil},
		"a stop is skipped":                   {edges(meets(), "v1.4.0", "v1.5.0", "v1.6.0"), "CAP-RELEASE-EDGE", []string{"Block: Release v2.0.0 can't be reached from v1.4.0, only from v1.5.0, v1.6.0 -> upgrade to v1.5.0 or v1.6.0 first"}},
		"the last stop":                       {edges(meets(), "v1.6.0", "v1.5.0", "v1.6.0"), "CAP-RELEASE-EDGE", nil},
		"the same release again":              {edges(meets(), "v2.0.0", "v1.6.0"), "CAP-RELEASE-EDGE", nil},
		"nobody knows what is installed":      {edges(meets().with("a", "", "v1.0.0", "v1.1.0", nil), "", "v1.6.0"), "CAP-RELEASE-EDGE", []string{"Warn: Release v2.0.0 may be reached from v1.6.0 only, and no run of Capstan tells which release is installed here -> compare the versions under FROM with those of that release"}},
		"nothing is installed":                {edges(meets().with("a", "", "", "v1.1.0", nil), "", "v1.6.0"), "CAP-RELEASE-EDGE", nil},
		"a pre-release":                       {meets().with("a", "", "v1.0.0", "v1.1.0-rc.1", nil), "CAP-PRERELEASE", []string{"Block: Component a would move to v1.1.0-rc.1, a pre-release -> use a stable version, or add --allow-prerelease if this one is meant"}},
		"a pre-release that is there already": {meets().with("a", "", "v1.1.0-rc.1", "v1.1.0-rc.1", nil), "CAP-PRERELEASE", nil},
		"build metadata makes no pre-release": {meets().with("a", "", "v1.0.0", "v1.1.0+site", nil), "CAP-PRERELEASE", nil},
		"going back":                          {meets().with("a", "", "v1.1.0", "v1.0.0", nil), "CAP-DOWNGRADE", []string{"Block: Component a would go back from v1.1.0 to v1.0.0 -> choose a release with a at v1.1.0 or later"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.given.finds(t, tc.id), tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestAPreReleaseIsAllowedByName(t *testing.T) {
	t.Parallel()
	c := meets().with("a", "", "v1.0.0", "v1.1.0-rc.1", nil)
	c.t.Bundle.Release.Spec.Version = "v2.0.0-beta.1"
	if got := c.finds(t, "CAP-PRERELEASE"); len(got) != 2 {
		t.Errorf("component and release: %v", got)
	}
	c.t.AllowPrerelease = true
	if got := c.finds(t, "CAP-PRERELEASE"); len(got) > 0 {
		t.Errorf("although allowed: %v", got)
	}
}

func TestDependents(t *testing.T) {
	t.Parallel()
	ref := func(name string) world.Ref {
		return world.Ref{APIVersion: "x.io/v1", Kind: "Template", Namespace: "a", Name: name}
	}
	c := meets().with("x", infra, "v1.9.0", "v2.0.0", nil)
	c.t.Bundle.Release.Spec.Dependents = []v1alpha1.Dependent{
		{APIVersion: "x.io/v1", Kind: "Template", FieldPath: ".spec.version", Component: "x"},
		{APIVersion: "x.io/v1", Kind: "Template", FieldPath: ".metadata.name", Pattern: `-([0-9]+)-[0-9]+$`, Component: "x"},
	}
	c.w.Survey.Dependents = []world.Dependent{
		{Ask: 0, Ref: ref("old"), Value: "v1.4.2"},
		{Ask: 0, Ref: ref("bare"), Value: "1"},
		{Ask: 0, Ref: ref("new"), Value: "2.3.0"},
		{Ask: 0, Ref: ref("newer"), Value: "v2"},
		{Ask: 0, Ref: ref("odd"), Value: "latest"},
		{Ask: 1, Ref: ref("aws-1-4"), Value: "aws-1-4"},
		{Ask: 1, Ref: ref("aws-2-0"), Value: "aws-2-0"},
	}
	want := []string{
		`Block: Template a/old depends on x v1: its .spec.version is "v1.4.2", and the release has v2.0.0 -> move it to one that is made for x v2 first`,
		`Block: Template a/bare depends on x v1: its .spec.version is "1", and the release has v2.0.0 -> move it to one that is made for x v2 first`,
		`Block: Template a/aws-1-4 depends on x v1: its .metadata.name is "aws-1-4", and the release has v2.0.0 -> move it to one that is made for x v2 first`,
		`Warn: Template a/odd names no version of x: its .spec.version is "latest" -> see whether it works with x v2.0.0; a pattern in the release's spec.dependents says where the version is`,
	}
	if diff := cmp.Diff(c.finds(t, "CAP-DEPENDENT-MAJOR"), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestKnownRisks(t *testing.T) {
	t.Parallel()
	const kcp = "ControlPlaneProvider"
	kubeadm := func(from, to string) *compat {
		return meets().with("kubeadm", kcp, from, to, nil).cluster("one", "v1.35.5", "KubeadmControlPlane").cluster("two", "v1.34.6", "KubeadmControlPlane")
	}
	topology := kubeadm("v1.13.1", "v1.13.1")
	topology.w.Clusters = topology.w.Clusters[1:]
	topology.w.Clusters[0].TopologyVersion = "v1.35.5"
	own := meets().with("a", "", "v1.0.0", "v1.1.0", nil)
	own.t.Bundle.Release.Spec.KnownRisks = []v1alpha1.KnownRisk{{
		ID: "site", Verdict: v1alpha1.VerdictWarn, When: v1alpha1.RiskCondition{Component: "a", Version: ">=1.1", ManagementKubernetes: ">=1.36"}, Summary: "it smells", Sources: []string{"https://example.com/1"},
	}}
	for name, tc := range map[string]struct {
		given *compat
		want  []string
	}{
		"the pair that can't be rolled": {kubeadm("v1.12.9", "v1.13.1"), []string{
			"Block|control-plane-kubeadm v1.13.1|Kubernetes v1.35.5|cluster a/one|go to control-plane-kubeadm v1.13.2 or later first|kubectl create clusterrolebinding kubeadm:apiserver-kubelet-client|issues/13770",
		}},
		"it is judged with a topology's version too": {topology, []string{"Block|control-plane-kubeadm v1.13.1|Kubernetes v1.35.5|cluster a/two|v1.13.2"}},
		"the provider stays although it is not in the release": {
			meets().installed("kubeadm", kcp, "v1.12.7").cluster("one", "v1.35.5", "KubeadmControlPlane"), []string{"Block|control-plane-kubeadm v1.12.7|v1.12.8"},
		},
		"the upgrade ends it":    {kubeadm("v1.13.1", "v1.13.4"), []string{"Warn|Before the upgrade:|control-plane-kubeadm v1.13.1|this upgrade ends it"}},
		"it never was":           {kubeadm("v1.13.2", "v1.13.4"), nil},
		"the release's own risk": {own, []string{"Warn|site|a v1.1.0|Kubernetes v1.36.3 of the management cluster|it smells|https://example.com/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.given.finds(t, "CAP-KNOWN-RISK")
			if len(got) != len(tc.want) {
				t.Fatalf("%d findings, want %d: %v", len(got), len(tc.want), got)
			}
			for i, pieces := range tc.want {
				for piece := range strings.SplitSeq(pieces, "|") {
					if !strings.Contains(got[i], piece) {
						t.Errorf("%q does not say %q", got[i], piece)
					}
				}
			}
		})
	}
}
