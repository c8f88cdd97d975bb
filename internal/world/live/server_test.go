// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// assetsVariable names the directory that holds etcd and kube-apiserver.
const assetsVariable = "KUBEBUILDER_ASSETS"

// startServer runs an etcd and an API server for one test and returns how to reach it.
func startServer(t *testing.T) *rest.Config {
	t.Helper()
	assets := os.Getenv(assetsVariable)
	if assets == "" {
		t.Skipf("%s is not set: set it to a directory with etcd and kube-apiserver, or run make test", assetsVariable)
	}
	dir := t.TempDir()
	ports := freePorts(t, 3)
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	start(t, dir, filepath.Join(assets, "etcd"),
		"--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[1]))
	key := filepath.Join(dir, "sa.key")
	write(t, key, serviceAccountKey(t))
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, []byte("test-token,admin,admin,system:masters\nlimited-token,limited,limited,\n"))
	start(t, dir, filepath.Join(assets, "kube-apiserver"),
		"--etcd-servers="+etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]),
		"--cert-dir="+filepath.Join(dir, "certs"), "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://test", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount", "--allow-privileged=true")
	cfg := &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", ports[2]),
		BearerToken:     "test-token",
		UserAgent:       "capstan/test",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS:             -1,
	}
	awaitReady(t, cfg, dir)
	return cfg
}

func awaitReady(t *testing.T, cfg *rest.Config, dir string) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		req, err := newRequest(ctx, cfg.Host+"/readyz")
		if err != nil {
			return false, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return false, nil //nolint:nilerr // not up yet
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "kube-apiserver.log")) //nolint:gosec // in the test's own directory
		t.Fatalf("the API server does not become ready: %v\n%s", err, tail(log, 3000))
	}
}

// start runs a program until the test ends.
func start(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log")) //nolint:gosec // in the test's own directory
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...) //nolint:gosec // the binaries that the caller names
	cmd.Stdout, cmd.Stderr = log, log
	// Killed with the test binary, even if that is killed itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			t.Fatal("no TCP address")
		}
		ports = append(ports, addr.Port)
	}
	return ports
}

func serviceAccountKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func tail(b []byte, n int) []byte {
	return bytes.TrimSpace(b[max(0, len(b)-n):])
}
