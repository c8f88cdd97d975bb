// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

const converting = `
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: metal3-system, name: hook, path: /convert}}
`

func TestC14_ConversionThatAnotherManagerHoldsOn(t *testing.T) {
	t.Parallel()
	crd := kindYAML("m3s", "M3", ver{name: "v1alpha1"}, ver{name: "v1beta1", storage: true})
	const name = "m3s.infrastructure.cluster.x-k8s.io"
	for what, c := range map[string]struct {
		manager string
		update  bool
		next    string
		inject  bool
	}{
		"an unknown tool applied it": {manager: "tool", next: crd, inject: true},
		"kubectl applied it":         {manager: "kubectl-client-side-apply", update: true, next: crd, inject: true},
		"clusterctl applied it, and the new CRD names strategy None itself": {
			manager: "clusterctl", update: true, next: strings.TrimRight(crd, "\n") + "\n  conversion: {strategy: None}\n", inject: true,
		},
		"nobody injected a CA": {manager: "clusterctl", update: true, next: crd},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, apitest.Options{})
			b.ready(t)
			live := strings.TrimRight(crd, "\n") + converting
			if c.update {
				b.createAs(t, c.manager, live)
			} else {
				b.applyAs(t, c.manager, live)
			}
			if c.inject {
				b.inject(t, b.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name), `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":"`+validCA(t)+`"}]`)
			}
			dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", c.next))

			r := b.capstan(t, "plan", dir)
			want(t, r, problem.ExitDone)
			if c.inject {
				want(t, r, problem.ExitDone, "CAP-FIELD-CONFLICT", name, "spec.conversion.webhook.clientConfig.caBundle", "cainjector")
			}
			want(t, b.capstan(t, "upgrade", dir, "--yes"), problem.ExitDone)
			after := b.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
			conversion, _, err := unstructured.NestedMap(after.Object, "spec", "conversion")
			if err != nil || len(conversion) != 1 || conversion["strategy"] != "None" {
				t.Errorf("spec.conversion is %v, want nothing but strategy None", conversion)
			}
			want(t, b.capstan(t, "plan", dir), problem.ExitDone, "Nothing to do")
		})
	}
}

// TestC14_WebhookThatAnotherManagerHoldsOn is the same fault in a webhook configuration.
func TestC14_WebhookThatAnotherManagerHoldsOn(t *testing.T) {
	t.Parallel()
	hook := func(name string) string {
		return `
- name: ` + name + `
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {namespace: metal3-system, name: hook, path: /x}}
  rules: [{apiGroups: [example.org], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]`
	}
	config := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: metal3, labels: {cluster.x-k8s.io/provider: infrastructure-metal3}}\nwebhooks:"
	b := newBed(t, apitest.Options{})
	b.ready(t)
	b.createAs(t, "clusterctl", config+hook("a.example.org")+hook("b.example.org"))
	live := b.get(t, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "metal3")
	b.inject(t, live, `[{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":"`+validCA(t)+`"}]`)
	dir := writeRelease(t, "v1.1.0", "", provider("v1.1.0", config+hook("a.example.org")))

	want(t, b.capstan(t, "plan", dir), problem.ExitDone, "CAP-FIELD-CONFLICT", "ValidatingWebhookConfiguration metal3", "caBundle", "cainjector")
	// Nothing answers the webhook that stays, so the run can't end; the configuration is right all the same.
	b.capstan(t, "upgrade", dir, "--yes", "--stall-limit", "2s")
	after := b.get(t, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "metal3")
	hooks, _, err := unstructured.NestedSlice(after.Object, "webhooks")
	if err != nil || len(hooks) != 1 {
		t.Errorf("webhooks are %v, want one", hooks)
	}
}

// createAs makes objects as a tool that does not use server-side apply.
func (b *bed) createAs(t *testing.T, manager, text string) {
	t.Helper()
	for _, u := range objects(t, text) {
		if _, err := b.of(t, u).Create(t.Context(), u, metav1.CreateOptions{FieldManager: manager}); err != nil {
			t.Fatalf("create %s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if u.GetKind() == "CustomResourceDefinition" {
			b.established(t, u.GetName())
		}
	}
}

// inject changes an object as cert-manager's cainjector does.
func (b *bed) inject(t *testing.T, u *unstructured.Unstructured, patch string) {
	t.Helper()
	if _, err := b.of(t, u).Patch(t.Context(), u.GetName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "cainjector"}); err != nil {
		t.Fatalf("inject: %v", err)
	}
}

// validCA is a certificate authority as it stands in a caBundle.
func validCA(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
