// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package knowledge_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/internal/knowledge"
)

// at is a management cluster in which one component is, or moves to, a version.
func at(component, from, to string, clusters ...knowledge.Cluster) knowledge.Facts {
	return knowledge.Facts{
		Management: "v1.34.1", Clusters: clusters,
		Components: []knowledge.Component{{Names: []string{component}, Version: to, From: from}},
	}
}

func kubeadm(key, from, to string) knowledge.Cluster {
	return knowledge.Cluster{Key: key, Version: to, From: from, ControlPlane: "KubeadmControlPlane"}
}

// said is what a match says, in short.
type said struct {
	ID, Component, Version, Lowest, Kubernetes string
	Clusters                                   []string
}

func match(t *testing.T, f knowledge.Facts) []said {
	t.Helper()
	risks, err := knowledge.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	var out []said
	for _, r := range knowledge.Match(risks, f) {
		out = append(out, said{r.Known.ID, r.Component, r.Version, r.Lowest, r.Kubernetes, r.Clusters})
	}
	return out
}

func TestKubernetesPatchThatTheProviderCannotRoll(t *testing.T) {
	t.Parallel()
	const kcp, id = "control-plane-kubeadm", "kubeadm-kubelet-client-binding"
	cases := map[string]struct{ provider, kubernetes, want string }{
		"1.13.1 with 1.35.5":                   {"v1.13.1", "v1.35.5", "v1.13.2"},
		"1.12.7 with 1.35.5":                   {"v1.12.7", "v1.35.5", "v1.12.8"},
		"1.11.10 with 1.34.8":                  {"v1.11.10", "v1.34.8", "v1.11.11"},
		"1.10 with 1.33.12":                    {"v1.10.8", "v1.33.12", "v1.11.11"},
		"1.12.7 with 1.36.1 of a distribution": {"v1.12.7", "v1.36.1-eks-1", "v1.12.8"},
		"a pre-release of the fix is not it":   {"v1.13.2-rc.0", "v1.35.5", "v1.13.2"},
		"the fix on 1.13":                      {"v1.13.2", "v1.35.5", ""},
		"the fix on 1.12":                      {"v1.12.8", "v1.35.5", ""},
		"the fix on 1.11":                      {"v1.11.11", "v1.35.5", ""},
		"every 1.14":                           {"v1.14.0", "v1.36.1", ""},
		"a patch before the change":            {"v1.13.1", "v1.35.4", ""},
		"a minor's first release before it":    {"v1.13.1", "v1.36.0", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := match(t, at(kcp, tc.provider, tc.provider, kubeadm("a/x", tc.kubernetes, tc.kubernetes), kubeadm("b/y", tc.kubernetes, tc.kubernetes)))
			got = slices.DeleteFunc(got, func(s said) bool { return s.ID != id })
			var want []said
			if tc.want != "" {
				want = []said{{id, kcp, tc.provider, tc.want, tc.kubernetes, []string{"a/x", "b/y"}}}
			}
			if diff := cmp.Diff(got, want, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestEachKnownRiskStandsSomewhere(t *testing.T) {
	t.Parallel()
	on := func(f knowledge.Facts, kubernetes string) knowledge.Facts { f.Management = kubernetes; return f }
	kamaji := at("bootstrap-kubeadm", "v1.13.4", "v1.14.2")
	kamaji.Components = append(kamaji.Components, knowledge.Component{Names: []string{"control-plane-kamaji"}, Version: "v0.19.0", From: "v0.19.0"})
	cases := map[string]knowledge.Facts{
		"kubeadm-kubelet-client-binding":         at("control-plane-kubeadm", "", "v1.13.1", kubeadm("a/x", "v1.34.6", "v1.35.5")),
		"etcd-zombie-members":                    at("control-plane-kubeadm", "", "v1.14.2", kubeadm("a/x", "v1.33.5", "v1.34.1")),
		"kubeadm-registry-default":               at("control-plane-kubeadm", "", "v1.3.1", kubeadm("a/x", "v1.23.14", "v1.23.14")),
		"kubeadm-control-plane-rollout-in-1-11":  at("control-plane-kubeadm", "v1.10.8", "v1.11.2"),
		"kubeadm-control-plane-rollout-in-1-1-0": at("control-plane-kubeadm", "v1.0.4", "v1.1.0"),
		"k0smotron-rollout-in-2-0-0":             at("control-plane-k0sproject-k0smotron", "v1.10.6", "v2.0.0"),
		"kamaji-bootstrap-access":                kamaji,
		"cluster-api-0-3-on-kubernetes-1-22":     at("cluster-api", "v0.3.20", "v0.3.25"),
		"cert-manager-selectable-fields":         on(at("cert-manager", "v1.19.1", "v1.20.0"), "v1.29.4"),
		"kubernetes-1-35-support":                at("control-plane-kubeadm", "", "v1.12.0", kubeadm("a/x", "v1.35.0", "v1.35.0")),
		"kubernetes-1-36-support":                at("control-plane-kubeadm", "", "v1.13.0", kubeadm("a/x", "v1.36.0", "v1.36.0")),
		"kubernetes-1-37-support":                at("control-plane-kubeadm", "", "v1.14.0", kubeadm("a/x", "v1.37.0", "v1.37.0")),
	}
	risks, err := knowledge.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range risks {
		f, ok := cases[r.ID]
		if !ok {
			t.Errorf("nothing shows that %s can stand", r.ID)
			continue
		}
		if !slices.ContainsFunc(match(t, f), func(s said) bool { return s.ID == r.ID }) {
			t.Errorf("%s does not stand, but %v", r.ID, match(t, f))
		}
	}
}

func TestNoKnownRiskStandsWhereAllIsWell(t *testing.T) {
	t.Parallel()
	cases := map[string]knowledge.Facts{
		"nothing installed":               {Management: "v1.36.3"},
		"today's versions":                at("control-plane-kubeadm", "v1.13.4", "v1.14.2", kubeadm("a/x", "v1.35.5", "v1.35.5"), kubeadm("a/y", "v1.36.3", "v1.36.3")),
		"another control plane's cluster": at("control-plane-kubeadm", "", "v1.13.1", knowledge.Cluster{Key: "a/x", Version: "v1.35.5", From: "v1.35.5", ControlPlane: "K0sControlPlane"}),
		"kubeadm's provider is not there": at("infrastructure-docker", "", "v1.13.1", kubeadm("a/x", "v1.35.5", "v1.35.5")),
		"a first install moves nothing":   at("control-plane-kubeadm", "", "v1.11.2"),
		"a Kubernetes version of no form": at("control-plane-kubeadm", "", "v1.13.1", kubeadm("a/x", "main", "main")),
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := match(t, f); len(got) > 0 {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestBadKnowledgeIsRefused(t *testing.T) {
	t.Parallel()
	const tail = "\n    summary: s\n    sources: [\"https://example.com/1\"]\n"
	cases := map[string]struct{ in, want string }{
		"an unknown field":            {"risks:\n  - id: a\n    wen: {}", `unknown field "wen"`},
		"no condition":                {"risks:\n  - id: a" + tail, "when is empty"},
		"a range of words":            {"risks:\n  - id: a\n    when: {component: x, version: newest}" + tail, `when: version: "newest" is not a list of bounds`},
		"a version of nothing":        {"risks:\n  - id: a\n    when: {version: \">=1\"}" + tail, "version and from need a component"},
		"no source":                   {"risks:\n  - id: a\n    summary: s\n    when: {component: x}", "sources are missing"},
		"a source that is no address": {"risks:\n  - id: a\n    summary: s\n    when: {component: x}\n    sources: [hearsay]", `source "hearsay" is not an address`},
		"twice the same":              {"risks:\n  - id: a\n    when: {component: x}" + tail + "  - id: a\n    when: {component: x}" + tail, "there is a risk a already"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := knowledge.Parse("k.yaml", []byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want one with %q", err, tc.want)
			}
		})
	}
}
