// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

func testConfig(t *testing.T) Config {
	t.Helper()
	return Config{
		Dir: t.TempDir(), Name: "t", Address: netip.MustParseAddr("10.244.0.1"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		NodeName: "node-1", ProxyURL: "http://127.0.0.1:1234", Clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		Binaries: Binaries{Etcd: "/b/etcd", APIServer: "/b/kube-apiserver", ControllerManager: "/b/kcm", Scheduler: "/b/ks"},
	}
}

func prepared(t *testing.T) (Config, Files) {
	t.Helper()
	c := testConfig(t)
	f, err := Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

func TestServingCertificatesAreGoodForTheAddressesThatAreDialled(t *testing.T) {
	t.Parallel()
	c, f := prepared(t)
	ca, err := os.ReadFile(f.CA())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cases := map[string]struct{ cert, host string }{
		"API server at the bridge":           {"apiserver", "10.244.0.1"},
		"API server at the first cluster IP": {"apiserver", "10.96.0.1"},
		"API server by its service name":     {"apiserver", "kubernetes.default.svc"},
		"kubelet at the node's address":      {"kubelet", "10.244.0.1"},
		"kubelet by the node's name":         {"kubelet", "node-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := tls.LoadX509KeyPair(f.pki(tc.cert+".crt"), f.pki(tc.cert+".key"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, CurrentTime: c.Clock.Now()})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOnlyTheOutsideKubeconfigGoesThroughTheProxy(t *testing.T) {
	t.Parallel()
	c, f := prepared(t)
	got := map[string]string{}
	for name, path := range map[string]string{"outside": f.Kubeconfig(), "inside": f.AdminKubeconfig(), "node": f.NodeKubeconfig()} {
		kc, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cl := kc.Clusters[kc.Contexts[kc.CurrentContext].Cluster]
		got[name] = cl.Server + " " + cl.ProxyURL
	}
	want := map[string]string{"outside": c.Server() + " http://127.0.0.1:1234", "inside": c.Server() + " ", "node": c.Server() + " "}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("server and proxy (-got +want):\n%s", diff)
	}
}

func TestNodeIdentityIsANode(t *testing.T) {
	t.Parallel()
	_, f := prepared(t)
	cfg, err := clientcmd.BuildConfigFromFlags("", f.NodeKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	got := append([]string{pair.Leaf.Subject.CommonName}, pair.Leaf.Subject.Organization...)
	if diff := cmp.Diff(got, []string{"system:node:node-1", "system:nodes", "system:masters"}); diff != "" {
		t.Errorf("user and groups (-got +want):\n%s", diff)
	}
}

// TestAuditPolicy evaluates the policy as the API server does: the first rule that matches decides.
func TestAuditPolicy(t *testing.T) {
	t.Parallel()
	_, f := prepared(t)
	data, err := os.ReadFile(f.conf("audit-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Rules []auditRule `json:"rules"`
	}
	if err := yaml.Unmarshal(data, &policy); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		user, group, verb, apiGroup, resource string
		want                                  string
	}{
		"a read is not logged":                        {"admin", "", "get", "", "secrets", "None"},
		"a write is logged without content":           {"admin", "", "create", "", "secrets", "Metadata"},
		"a delete is logged with its options":         {"admin", "", "delete", "", "pods", "Request"},
		"an eviction is logged with its options":      {"admin", "", "create", "", "pods/eviction", "Request"},
		"an access review is no write":                {"admin", "", "create", "authorization.k8s.io", "selfsubjectaccessreviews", "None"},
		"a lease of a system component is noise":      {"system:kube-scheduler", "", "update", "coordination.k8s.io", "leases", "None"},
		"a lease of anybody else is a write":          {"admin", "", "update", "coordination.k8s.io", "leases", "Metadata"},
		"the node's own status is noise":              {"system:node:n", "system:nodes", "patch", "", "nodes/status", "None"},
		"the status of the node's Pods is a write":    {"system:node:n", "system:nodes", "patch", "", "pods/status", "Metadata"},
		"a change of a node by anybody is a write":    {"admin", "", "patch", "", "nodes", "Metadata"},
		"a node status written by others is a write":  {"admin", "", "patch", "", "nodes/status", "Metadata"},
		"a custom resource is logged without content": {"admin", "", "patch", "cluster.x-k8s.io", "machines", "Metadata"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(policy.Rules, func(r auditRule) bool {
				return matches(r.Users, tc.user) && matches(r.UserGroups, tc.group) && matches(r.Verbs, tc.verb) && r.NonResourceURLs == nil &&
					(r.Resources == nil || slices.ContainsFunc(r.Resources, func(g auditResources) bool {
						return g.Group == tc.apiGroup && matches(g.Resources, tc.resource)
					}))
			})
			if got := policy.Rules[i].Level; got != tc.want {
				t.Errorf("got level %s from rule %d, want %s", got, i, tc.want)
			}
		})
	}
}

func matches(list []string, v string) bool { return list == nil || slices.Contains(list, v) }

func TestComponentsComeInStartOrderWithSortedFlags(t *testing.T) {
	t.Parallel()
	c, f := prepared(t)
	list, err := Components(c, f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, comp := range list {
		names = append(names, comp.Name)
		if !slices.IsSorted(comp.Args) {
			t.Errorf("flags of %s are not sorted: %v", comp.Name, comp.Args)
		}
	}
	if diff := cmp.Diff(names, []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}); diff != "" {
		t.Errorf("components (-got +want):\n%s", diff)
	}
}

func TestFailedChecks(t *testing.T) {
	t.Parallel()
	got := failedChecks("[+]ping ok\n[-]poststarthook/rbac failed: reason withheld\nreadyz check failed\n")
	if want := "[-]poststarthook/rbac failed: reason withheld"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := failedChecks(" starting \n"); strings.TrimSpace(got) != "starting" {
		t.Errorf("got %q, want the whole answer", got)
	}
}
