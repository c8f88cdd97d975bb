// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/base64"
	"fmt"
	"os"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

const plainCorefile = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`

const oddCorefile = `.:53 {
    errors
    blocklist /etc/coredns/blocked {
       domain example.org
    }
    kubernetes cluster.local
    forward . /etc/resolv.conf
}
`

// coreDNS puts a CoreDNS into a workload cluster as kubeadm would.
func (b *bed) coreDNS(t *testing.T, tag, corefile string) {
	t.Helper()
	b.apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: coredns, image: "registry.k8s.io/coredns/coredns:%s"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
%s
`, tag, indent(corefile, "    ")))
}

// reach makes a workload cluster's API server known as that of a cluster.
func (b *bed) reach(t *testing.T, cluster string, workload *apitest.Server) {
	t.Helper()
	kubeconfig, err := os.ReadFile(workload.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	b.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s-kubeconfig, namespace: default}\ndata: {value: %s}\n",
		cluster, base64.StdEncoding.EncodeToString(kubeconfig)))
}

func TestC08_CoreDNSThatCannotBeMigrated(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	w := newBed(t, apitest.Options{})
	plan := func(cluster string, more ...string) result {
		return b.capstan(t, append([]string{"nodes", "plan", "--cluster", cluster, "--version", "v1.34.1", "--with-control-plane"}, more...)...)
	}
	of := func(name, tag string) {
		config := ""
		if tag != "" {
			config = "dns: {imageTag: " + tag + "}\n"
		}
		b.fleetCluster(t, name, "", controlPlane{version: "v1.33.4", config: config})
		b.reach(t, name, w.Server)
	}
	of("same", "")
	of("sametag", "v1.11.1-100")
	of("bumped", "v1.12.1")
	of("unknown", "v9.9.9")
	of("back", "v1.10.1")
	of("word", "latest")
	b.fleetCluster(t, "dark", "", controlPlane{version: "v1.33.4", config: "dns: {imageTag: v1.12.1}\n"})
	b.fleetCluster(t, "skips", "", controlPlane{version: "v1.33.4", config: "dns: {imageTag: v9.9.9}\n", annotations: `controlplane.cluster.x-k8s.io/skip-coredns: ""`})

	w.coreDNS(t, "v1.11.1-100", oddCorefile)
	t.Run("a plugin that the migrator does not know", func(t *testing.T) {
		b.refused(t, plan("bumped"), "CAP-COREDNS", "default/bumped", "from v1.11.1-100 to v1.12.1", "the plugin blocklist",
			"kubectl -n default annotate kubeadmcontrolplane.controlplane.cluster.x-k8s.io bumped-cp controlplane.cluster.x-k8s.io/skip-coredns=")
	})
	t.Run("a tag that is given on the command line", func(t *testing.T) {
		b.refused(t, plan("same", "--coredns-tag", "v1.12.1"), "CAP-COREDNS", "v1.11.1-100 to v1.12.1", "blocklist", "skip-coredns")
	})
	t.Run("no change of the tag", func(t *testing.T) {
		for _, cluster := range []string{"same", "sametag"} {
			r := plan(cluster)
			want(t, r, problem.ExitDone)
			lacks(t, r, "CAP-COREDNS")
		}
	})
	t.Run("the deliberate override", func(t *testing.T) { want(t, plan("skips"), problem.ExitDone) })
	t.Run("a cluster that can't be asked", func(t *testing.T) {
		b.refused(t, plan("dark"), "UNKNOWN", "CAP-COREDNS", "default/dark", "dark-kubeconfig")
	})

	w.coreDNS(t, "v1.11.1-100", plainCorefile)
	t.Run("a Corefile that can be migrated", func(t *testing.T) { want(t, plan("bumped"), problem.ExitDone) })
	t.Run("versions that the migrator does not know", func(t *testing.T) {
		b.refused(t, plan("unknown"), "CAP-COREDNS", "v1.11.1-100 to v9.9.9", "skip-coredns")
		b.refused(t, plan("back"), "CAP-COREDNS", "v1.11.1-100 to v1.10.1")
		b.refused(t, plan("word"), "CAP-COREDNS", "to latest", "is no version")
		w.coreDNS(t, "v1.11.99", plainCorefile)
		b.refused(t, plan("bumped"), "CAP-COREDNS", "from v1.11.99 to v1.12.1", "does not know CoreDNS 1.11.99")
	})
	t.Run("a change that the API server refuses", func(t *testing.T) {
		b.refused(t, plan("same", "--coredns-tag", longTag()), "CAP-NODE-CHANGE", "KubeadmControlPlane default/same-cp", "imageTag")
	})
}

// longTag is longer than the CRD allows.
func longTag() string {
	out := []byte("v1.12.1-")
	for len(out) < 300 {
		out = append(out, 'a')
	}
	return string(out)
}
