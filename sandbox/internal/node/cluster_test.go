// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cluster is a control plane inside the sandbox of the integration test.
type cluster struct {
	client   kubernetes.Interface
	config   *rest.Config
	registry string
	dir      string
}

func startCluster(ctx context.Context, t *testing.T, bin, host string) *cluster {
	t.Helper()
	dir := t.TempDir()
	pki := writePKI(t, dir, host)
	tokens := filepath.Join(dir, "tokens.csv")
	must(t, os.WriteFile(tokens, []byte("admin,admin,1,system:masters\n"), 0o600))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"https://%s:6443","certificate-authority":"%s"}}],
"users":[{"name":"c","user":{"token":"admin"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, host, pki.ca), 0o600))

	start(ctx, t, dir, bin, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "error")
	start(ctx, t, dir, bin, "kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--secure-port", "6443",
		"--advertise-address", host, "--tls-cert-file", pki.cert, "--tls-private-key-file", pki.key,
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-account-key-file", pki.sa,
		"--service-account-signing-key-file", pki.sa, "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-cluster-ip-range", "10.96.0.0/16", "--enable-aggregator-routing=true", "--cert-dir", dir)
	config := &rest.Config{
		Host: "https://" + host + ":6443", BearerToken: "admin", QPS: 200, Burst: 400,
		TLSClientConfig: rest.TLSClientConfig{CAFile: pki.ca},
	}
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	eventually(ctx, t, "API server is ready", func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
	start(ctx, t, dir, bin, "kube-controller-manager", "--kubeconfig", kubeconfig, "--service-account-private-key-file", pki.sa,
		"--root-ca-file", pki.ca, "--use-service-account-credentials", "--leader-elect=false")
	start(ctx, t, dir, bin, "kube-scheduler", "--kubeconfig", kubeconfig, "--leader-elect=false")
	return &cluster{client: client, config: config, registry: startRegistry(ctx, t, host), dir: dir}
}

// start runs a component until the test ends.
func start(ctx context.Context, t *testing.T, dir, bin, component string, args ...string) {
	t.Helper()
	logFile, err := os.Create(filepath.Join(dir, component+".log"))
	must(t, err)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, component), args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		logFile.Close()
		if data, err := os.ReadFile(logFile.Name()); t.Failed() && err == nil {
			t.Logf("%s: %s", component, data[max(0, len(data)-1500):])
		}
	})
}

type pkiFiles struct{ ca, cert, key, sa string }

func writePKI(t *testing.T, dir, host string) pkiFiles {
	t.Helper()
	f := pkiFiles{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "sa.key")}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		return k
	}
	caKey, serverKey, saKey := key(), key(), key()
	until := time.Now().Add(24 * time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(t, err)
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kubernetes"}, NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(host), net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"kubernetes.default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	must(t, err)
	writePEM(t, f.ca, "CERTIFICATE", caDER)
	writePEM(t, f.cert, "CERTIFICATE", serverDER)
	for path, k := range map[string]*ecdsa.PrivateKey{f.key: serverKey, f.sa: saKey} {
		der, err := x509.MarshalECPrivateKey(k)
		must(t, err)
		writePEM(t, path, "EC PRIVATE KEY", der)
	}
	return f
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// startRegistry serves images from memory at the bridge address.
func startRegistry(_ context.Context, t *testing.T, host string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "5000"))
	must(t, err)
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// push puts this test binary into an image and the image into the registry.
func (c *cluster) push(t *testing.T, ref string, change func(*v1.Config)) {
	t.Helper()
	exe, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer(t, map[string]string{"bin/app": string(exe)}))
	must(t, err)
	config, err := image.ConfigFile()
	must(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config = v1.Config{Entrypoint: []string{"/bin/app", "app"}, User: "65532:65532", Env: []string{"FROM_IMAGE=yes"}}
	if change != nil {
		change(&config.Config)
	}
	image, err = mutate.ConfigFile(image, config)
	must(t, err)
	tag, err := name.ParseReference(c.registry+"/"+ref, name.Insecure)
	must(t, err)
	must(t, remote.Write(tag, image))
}

func layer(t *testing.T, files map[string]string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for path, text := range files {
		must(t, w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, text)
		must(t, err)
	}
	must(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil },
		tarball.WithCompressionLevel(1))
	must(t, err)
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually fails the test unless check becomes true within a minute.
func eventually(ctx context.Context, t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, check)
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// ready waits until the Node is there and usable.
func (c *cluster) ready(ctx context.Context, t *testing.T, node string) {
	t.Helper()
	eventually(ctx, t, "default service account exists and node is ready", func(ctx context.Context) (bool, error) {
		n, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil || len(n.Spec.Taints) > 0 {
			return false, nil //nolint:nilerr // it is asked again
		}
		_, err = c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}
