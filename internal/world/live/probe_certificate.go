// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/diagnose"
)

// injectCAFrom names the cert-manager Certificate whose CA is filled into a webhook's configuration.
const injectCAFrom = "cert-manager.io/inject-ca-from"

// certificateFault says what is wrong between the CA that the API server was given for a hook and the certificate that
// the hook's service serves; empty if nothing is, or if it can't be known.
func (r *round) certificateFault(ctx context.Context, h hook) string {
	source := h.annotations[injectCAFrom]
	if len(bytes.TrimSpace(h.client.caBundle)) == 0 {
		if source == "" {
			return ""
		}
		return fmt.Sprintf("no CA has been filled into its caBundle yet (from Certificate %s)", source)
	}
	key := fmt.Sprintf("certificate|%s|%s/%s|%x", source, h.client.namespace, h.client.service, sha256.Sum256(h.client.caBundle))
	return r.services.get(key, func() string {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(h.client.caBundle) {
			return "its caBundle holds no certificate"
		}
		if source == "" || h.client.service == "" {
			return ""
		}
		chain, fault := r.servingCertificate(ctx, source)
		if fault != "" || chain == nil {
			return fault
		}
		if err := verify(chain, roots, h.client.service+"."+h.client.namespace+".svc", r.at); err != nil {
			return fmt.Sprintf("its caBundle does not verify the certificate of %s: %s", source, err)
		}
		return ""
	})
}

// servingCertificate reads the certificate chain that a cert-manager Certificate (namespace/name) stands for. It returns
// a fault if there is none yet, and nothing at all if it may not be read.
func (r *round) servingCertificate(ctx context.Context, source string) (chain []byte, fault string) {
	namespace, name, _ := strings.Cut(source, "/")
	m, err := r.mapping(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	if err != nil {
		return nil, ""
	}
	certificate, err := r.clients.resource(m, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing("Certificate "+source, err)
	}
	secretName := stringAt(certificate, "spec", "secretName")
	secret, err := r.clients.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return nil, missing(fmt.Sprintf("Secret %s/%s with its certificate", namespace, secretName), err)
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", corev1.TLSCertKey)
	chain, err = base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(chain) == 0 {
		return nil, fmt.Sprintf("Secret %s/%s holds no certificate yet", namespace, secretName)
	}
	return chain, ""
}

// missing returns a fault for an object that is not there, and none for one that can't be read for another reason.
func missing(what string, err error) string {
	if diagnose.Classify(err) == diagnose.ClassNotFound {
		return what + " is not there yet"
	}
	return ""
}

// verify checks a PEM chain, leaf first, for a name.
func verify(chain []byte, roots *x509.CertPool, dnsName string, at time.Time) error {
	var leaf *x509.Certificate
	intermediates := x509.NewCertPool()
	for rest := chain; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if leaf == nil {
			leaf = c
			continue
		}
		intermediates.AddCert(c)
	}
	if leaf == nil {
		return errors.New("there is no certificate in it")
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: dnsName, CurrentTime: at})
	return err
}
