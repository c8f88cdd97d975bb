// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestC21_WebhookIsNotUsableYet replaces a provider whose webhook first refuses connections, then serves a certificate of
// a CA that the API server does not have yet. What comes after it is not touched before it has answered.
func TestC21_WebhookIsNotUsableYet(t *testing.T) {
	t.Parallel()
	release := func(t *testing.T, h *hookServer) string {
		return writeRelease(t, "v1.1.0", "",
			part{name: "docker", version: "v1.1.0", provider: "InfrastructureProvider", manifests: docker + "---" + h.config()},
			part{name: "after", version: "v1.1.0", manifests: configMap("after", "one"), needs: []string{"docker"}})
	}
	t.Run("the next write waits for the answer", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		b.apply(t, docker)
		b.installed(t, part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider"})
		h := newHookServer(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.until(t, "the webhook is configured", func(ctx context.Context) (bool, error) { return b.configured(ctx), nil })
			pause(t, 2*time.Second) // connections are refused
			h.serve(t)
			b.until(t, "the API server has met the certificate of the new CA", func(context.Context) (bool, error) { return h.met() > 1, nil })
			pause(t, time.Second)
			b.trust(t, h)
		}()
		r := b.capstan(t, "upgrade", release(t, h), "--yes")
		<-done
		want(t, r, problem.ExitDone)
		answered := h.answered()
		if answered.IsZero() {
			t.Fatal("the upgrade was done although the webhook never answered")
		}
		next := false
		for _, w := range b.Writes(t, "capstan/") {
			if strings.HasSuffix(w.Object, "configmaps default/after") {
				next = true
				if w.At.Before(answered) {
					t.Errorf("%s at %s, before the webhook answered at %s", w, w.At, answered)
				}
			}
		}
		if !next {
			t.Error("the component that comes after was not written at all")
		}
	})
	t.Run("time is up", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		b.apply(t, docker)
		b.installed(t, part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider"})
		h := newHookServer(t)
		h.serve(t)
		dir := release(t, h)
		r := b.capstan(t, "upgrade", dir, "--yes", "--stall-limit", "3s")
		want(t, r, problem.ExitFailed, "settings.docker.io", "ValidatingWebhookConfiguration docker", "x509", "capstan resume")
		for _, w := range b.writes(t) {
			if strings.Contains(w, "configmaps default/after") {
				t.Errorf("what comes after was written: %s", w)
			}
		}
		b.trust(t, h)
		want(t, b.capstan(t, "resume"), problem.ExitDone)
	})
}

func pause(t *testing.T, d time.Duration) {
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// hookServer is an admission webhook that can be made to answer late.
type hookServer struct {
	address string
	ca      []byte
	tls     *tls.Config

	mu    sync.Mutex
	tries int
	first time.Time
}

// newHookServer reserves an address and makes a CA; nothing listens yet.
func newHookServer(t *testing.T) *hookServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hookServer{address: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "new CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	h.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	h.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.tries++
			return nil, nil //nolint:nilnil // go on with the same configuration
		},
	}
	return h
}

// serve begins to answer.
func (h *hookServer) serve(t *testing.T) {
	l, err := tls.Listen("tcp", h.address, h.tls)
	if err != nil {
		t.Errorf("listen: %v", err)
		return
	}
	server := &http.Server{Handler: http.HandlerFunc(h.review), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // It ends when it is closed.
	t.Cleanup(func() { _ = server.Close() })
}

func (h *hookServer) review(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Result: &metav1.Status{}}
	review.Request = nil
	h.mu.Lock()
	if h.first.IsZero() {
		h.first = time.Now()
	}
	h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(review) //nolint:errchkjson // who hung up does not want it
}

func (h *hookServer) met() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

func (h *hookServer) answered() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first
}

// config is the webhook's configuration without a CA: something else fills it in.
func (h *hookServer) config() string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: docker}
webhooks:
- name: settings.docker.io
  failurePolicy: Fail
  sideEffects: None
  timeoutSeconds: 2
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://%s/"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: docker-system}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
`, h.address)
}

func (b *bed) configured(ctx context.Context) bool {
	_, err := b.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}).
		Get(ctx, "docker", metav1.GetOptions{})
	return err == nil
}

// trust fills in the CA, as a CA injector would.
func (b *bed) trust(t *testing.T, h *hookServer) {
	u := objects(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: docker}")[0]
	patch := fmt.Sprintf(`[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": %q}]`, base64.StdEncoding.EncodeToString(h.ca))
	if _, err := b.of(t, u).Patch(t.Context(), "docker", types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "ca-injector"}); err != nil {
		t.Errorf("fill in the CA: %v", err)
	}
}
