// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

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
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/internal/world"
)

// authority signs serving certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now().Add(-time.Hour), NotAfter: now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

// issue returns a serving certificate for a name.
func (a authority) issue(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: now().Add(-time.Hour), NotAfter: now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// hookServer is a server behind webhooks.
type hookServer struct {
	port  int
	calls atomic.Int64
	// broken makes it hang up.
	broken atomic.Bool
}

func startHookServer(t *testing.T, cert tls.Certificate) *hookServer {
	t.Helper()
	h := &hookServer{}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	addr, ok := s.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	h.port = addr.Port
	return h
}

// ServeHTTP allows everything, and converts by changing the version alone.
func (h *hookServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.calls.Add(1)
	if h.broken.Load() {
		panic(http.ErrAbortHandler)
	}
	var review map[string]any
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request, _ := review["request"].(map[string]any)
	response := map[string]any{"uid": request["uid"], "allowed": true}
	if objects, is := request["objects"].([]any); is {
		for _, o := range objects {
			if m, ok := o.(map[string]any); ok {
				m["apiVersion"] = request["desiredAPIVersion"]
			}
		}
		response = map[string]any{"uid": request["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"}}
	}
	delete(review, "request")
	review["response"] = response
	w.Header().Set("Content-Type", "application/json")
	raw, err := json.Marshal(review)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(raw)
}

const webhookText = `apiVersion: admissionregistration.k8s.io/v1
kind: %[1]sWebhookConfiguration
metadata: {name: probe-%[5]s}
webhooks:
- name: all.probe.io
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 3
  clientConfig: {caBundle: %[3]s, service: {namespace: probe, name: hooks, port: %[2]d, path: /admit}}
  rules: [{apiGroups: [probe.io], apiVersions: [v2], resources: [%[4]s], operations: [CREATE, UPDATE]}]`

// probeScene is a set of webhooks with everything behind them.
type probeScene struct {
	bench  *bench
	server *hookServer
	good   string
}

func (b *bench) probes(t *testing.T) {
	ca := newAuthority(t)
	cert, chain := ca.issue(t, "hooks.probe.svc")
	s := &probeScene{bench: b, server: startHookServer(t, cert), good: base64.StdEncoding.EncodeToString(ca.pem)}
	b.namespace(t, "probe")
	b.create(t, "test", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: hooks, namespace: probe}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: v1
kind: Secret
metadata: {name: serving, namespace: probe}
data: {tls.crt: %s}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: probe}
spec: {secretName: serving}`, base64.StdEncoding.EncodeToString(chain)))
	b.create(t, "test", anything("probe.io", "Thing", "Namespaced", "v2 v1"))
	b.create(t, "test", anything("probe.io", "Empty", "Namespaced", "v2"))
	b.create(t, "test", "apiVersion: probe.io/v2\nkind: Thing\nmetadata: {name: a, namespace: probe}")
	t.Run("admission webhooks are called through the API server", s.admission)
	t.Run("a certificate that the CA does not verify is named", s.certificate)
	t.Run("a conversion is called through the API server", s.conversion)
	t.Run("nothing is called before the Deployments are rolled out", s.early)
}

// observe probes objects and returns their health.
func (s *probeScene) observe(t *testing.T, objects ...*unstructured.Unstructured) []*world.Health {
	t.Helper()
	want := world.Want{ID: "probe", Probe: true}
	for _, u := range objects {
		want.Objects = append(want.Objects, world.Wanted{Presence: world.Present, Object: u})
	}
	var out []*world.Health
	for _, o := range s.bench.observe(t, want).Sets["probe"].Objects {
		if !o.InSync {
			t.Fatalf("%s is not in sync: %s%s", o.Ref, o.Drift, o.Refused)
		}
		out = append(out, o.Health)
	}
	return out
}

// eventually observes until health is as wanted: the API server takes up webhooks a moment after they are made.
func (s *probeScene) eventually(t *testing.T, what string, ok bool, words string, objects ...*unstructured.Unstructured) []*world.Health {
	t.Helper()
	var last []*world.Health
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		last = s.observe(t, objects...) //nolint:contextcheck // it uses the test's
		return !slices.ContainsFunc(last, func(h *world.Health) bool {
			return h == nil || h.OK != ok || !strings.Contains(h.Message, words)
		}), nil
	})
	if err != nil {
		t.Errorf("%s: %+v, want OK %t with %q", what, *last[0], ok, words)
	}
	return last
}

func (s *probeScene) admission(t *testing.T) {
	b := s.bench
	validating := parse(t, fmt.Sprintf(webhookText, "Validating", s.server.port, s.good, "things", "v"))
	mutating := parse(t, fmt.Sprintf(webhookText, "Mutating", s.server.port, s.good, "emptys", "m"))
	b.apply(t, validating)
	b.apply(t, mutating)
	s.eventually(t, "with a server", true, "", validating, mutating)
	before := s.server.calls.Load()
	if before < 2 {
		t.Errorf("the server was called %d times, want an update of a Thing and a creation of an Empty at least", before)
	}
	s.observe(t, validating, mutating)
	if now := s.server.calls.Load(); now != before {
		t.Errorf("%d more calls although nothing changed", now-before)
	}

	s.server.broken.Store(true)
	other := parse(t, fmt.Sprintf(webhookText, "Validating", s.server.port, s.good, "things", "other"))
	b.apply(t, other)
	health := s.eventually(t, "with a server that hangs up", false, "failed calling webhook", other)
	if c := health[0].Causes; len(c) != 1 || c[0].Reason != "WebhookSilent" || !strings.Contains(c[0].Message, "ValidatingWebhookConfiguration probe-other") {
		t.Errorf("causes are %+v, want the silent webhook", c)
	}
	s.server.broken.Store(false)
	s.eventually(t, "with the server back", true, "", other)
	for _, u := range []*unstructured.Unstructured{validating, mutating, other} {
		b.remove(t, u)
	}
}

func (s *probeScene) certificate(t *testing.T) {
	other := base64.StdEncoding.EncodeToString(newAuthority(t).pem)
	tests := map[string]struct {
		bundle string
		ok     bool
		words  string
	}{
		"the right CA":     {bundle: s.good, ok: true},
		"another CA":       {bundle: other, words: "does not verify the certificate of probe/serving"},
		"no CA was filled": {bundle: `""`, words: "no CA has been filled into its caBundle yet"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := parse(t, fmt.Sprintf(webhookText, "Validating", s.server.port, test.bundle, "things", "cert"))
			u.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "probe/serving"})
			s.bench.apply(t, u)
			s.eventually(t, name, test.ok, test.words, u)
			s.bench.remove(t, u)
		})
	}
}

func (s *probeScene) conversion(t *testing.T) {
	u := parse(t, anything("probe.io", "Thing", "Namespaced", "v2 v1"))
	conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"caBundle": s.good, "service": map[string]any{
			"namespace": "probe", "name": "hooks", "port": int64(s.server.port), "path": "/convert",
		}},
	}}
	if err := unstructured.SetNestedField(u.Object, conversion, "spec", "conversion"); err != nil {
		t.Fatal(err)
	}
	s.server.broken.Store(true)
	s.bench.apply(t, u)
	s.eventually(t, "with a server that hangs up", false, "things.probe.io can't be read as v1", u)
	s.server.broken.Store(false)
	s.eventually(t, "with the server back", true, "", u)
}

func (s *probeScene) early(t *testing.T) {
	b := s.bench
	validating := parse(t, fmt.Sprintf(webhookText, "Validating", s.server.port, s.good, "things", "early"))
	b.apply(t, validating)
	b.namespace(t, "early")
	u := deployment(t, "early")
	b.apply(t, u)
	before := s.server.calls.Load()
	health := s.observe(t, validating, u)
	if health[0] == nil || health[0].OK || health[0].Message != "ValidatingWebhookConfiguration probe-early: it is called once Deployment early/manager is rolled out" {
		t.Errorf("health is %+v, want it to wait for the Deployment", health[0])
	}
	if now := s.server.calls.Load(); now != before {
		t.Errorf("%d calls, want none", now-before)
	}
	b.remove(t, validating)
}
