// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// TestAClusterIsWhatItsHostsRun has machines come, lose their power and go, and looks at the cluster that is left.
func TestAClusterIsWhatItsHostsRun(t *testing.T) {
	ctx := ctrl.LoggerInto(t.Context(), logr.Discard())
	port := freePort(t)
	s, err := newSite(ctx, Options{Address: "127.0.0.1", MinPort: port, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.mux.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("shut down: %v", err)
		}
	})
	key := types.NamespacedName{Namespace: "n", Name: "c"}
	w, err := s.open(ctx, authorities(t, key), key, port)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := machineOn("a", true), machineOn("b", true), machineOn("c", false)
	for _, step := range []struct {
		name    string
		running []machine
		delete  string
		want    string
	}{
		{"all come up", []machine{a, b, c}, "", "a True: etcd api kcm sched proxy, b True: etcd api kcm sched proxy, c True: proxy; 2 members"},
		{"one has no power", []machine{dark(a), b, c}, "", "a Unknown: (etcd) (api) (kcm) (sched) proxy, b True: etcd api kcm sched proxy, c True: proxy; 1 members"},
		{"it has power again", []machine{a, b, c}, "", "a True: etcd api kcm sched proxy, b True: etcd api kcm sched proxy, c True: proxy; 2 members"},
		{"its disk is cleaned", []machine{b, c}, "", "a Unknown: proxy, b True: etcd api kcm sched proxy, c True: proxy; 1 members"},
		{"Cluster API deletes its node", []machine{b, c}, "a", "b True: etcd api kcm sched proxy, c True: proxy; 1 members"},
		{"a worker goes", []machine{b}, "c", "b True: etcd api kcm sched proxy; 1 members"},
	} {
		if step.delete != "" {
			if err := w.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: step.delete}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.settle(ctx, step.running); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		patchNodes(t, w)
		if diff := cmp.Diff(look(t, w), step.want); diff != "" {
			t.Fatalf("%s (-got +want):\n%s", step.name, diff)
		}
	}
	members, err := w.members(ctx)
	if err != nil || len(members) != 1 || members[0].Annotations["etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from"] == "" {
		t.Errorf("the last member does not lead: %v %v", members, err)
	}
}

// patchNodes writes nodes the way a client does that patches them: without a Go type.
func patchNodes(t *testing.T, w *workload) {
	t.Helper()
	nodes := listOf(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := w.client.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		nodes.Items[i].SetLabels(map[string]string{"patched": "", controlPlaneLabel: ""})
		if err := w.client.Update(t.Context(), &nodes.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func machineOn(name string, controlPlane bool) machine {
	return machine{
		name: name, controlPlane: controlPlane, up: true, image: host.KnownImage{Kernel: "k", Kubelet: "v1"},
		host: host.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "host-" + name, UID: types.UID(name)}},
	}
}

func dark(m machine) machine {
	m.up = false
	return m
}

// look writes down the nodes, their Pods, in brackets when they are not ready, and how many etcd members are served.
func look(t *testing.T, w *workload) string {
	t.Helper()
	nodes, err := w.nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := w.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"etcd": "etcd", "kube-apiserver": "api", "kube-controller-manager": "kcm", "kube-scheduler": "sched", "kube-proxy": "proxy"}
	var lines []string
	for i := range nodes {
		n := &nodes[i]
		text := n.Name
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				text += " " + string(c.Status) + ":"
			}
		}
		for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
			j := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == component+"-"+n.Name })
			switch {
			case j < 0:
			case podReady(&pods[j]):
				text += " " + short[component]
			default:
				text += " (" + short[component] + ")"
			}
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s; %d members", strings.Join(lines, ", "), len(w.site.mux.GetCluster(w.name).EtcdMembers))
}

// authorities are the certificate authorities that Cluster API makes for a cluster.
func authorities(t *testing.T, key types.NamespacedName) client.Client {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.RealClock{}.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, purpose := range []secret.Purpose{secret.ClusterCA, secret.EtcdCA} {
		objects = append(objects, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: secret.Name(key.Name, purpose)},
			Data: map[string][]byte{
				secret.TLSCrtDataName: certs.EncodeCertPEM(cert), secret.TLSKeyDataName: certs.EncodePrivateKeyPEM(private),
			},
		})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// freePort finds a port that is free with the one below it, where the in-memory servers' own pages are.
func freePort(t *testing.T) int32 {
	t.Helper()
	for range 50 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is a TCP listener
		below, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf(":%d", port-1))
		if closeErr := l.Close(); closeErr != nil {
			t.Fatal(closeErr)
		}
		if err != nil {
			continue
		}
		if err := below.Close(); err != nil {
			t.Fatal(err)
		}
		return int32(port)
	}
	t.Fatal("no two free ports beside each other")
	return 0
}
