// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// lifetime of every certificate: a sandbox lives for hours.
const lifetime = 365 * 24 * time.Hour

// backdate lets a client whose clock is a little behind accept the certificates.
const backdate = time.Hour

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// identity is who a client certificate speaks for.
type identity struct {
	user   string
	groups []string
}

// pki holds the authority that client certificates in kubeconfig files are signed by.
type pki struct {
	ca  pair
	now time.Time
}

// writePKI makes two authorities (cluster and front proxy), the serving and client certificates the components read from files, and the key
// that signs service account tokens.
func writePKI(c Config, f Files) (*pki, error) {
	p := &pki{now: c.Clock.Now()}
	var err error
	if p.ca, err = p.authority("capstan-sandbox-ca"); err != nil {
		return nil, err
	}
	frontCA, err := p.authority("capstan-sandbox-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	serviceIP := c.ServiceCIDR.Masked().Addr().Next()
	addr := net.IP(c.Address.AsSlice())
	leaves := []struct {
		name string
		ca   pair
		tmpl *x509.Certificate
	}{
		{"apiserver", p.ca, server("kube-apiserver", []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		}, addr, net.IP(serviceIP.AsSlice()), net.IPv4(127, 0, 0, 1))},
		{"kubelet", p.ca, server("system:node:"+c.NodeName, []string{c.NodeName, "localhost"}, addr, net.IPv4(127, 0, 0, 1))},
		{"apiserver-kubelet-client", p.ca, client(identity{"kube-apiserver-kubelet-client", []string{"system:masters"}})},
		{"front-proxy-client", frontCA, client(identity{"front-proxy-client", nil})},
	}
	files := map[string]pair{"ca": p.ca, "front-proxy-ca": frontCA}
	for _, l := range leaves {
		if files[l.name], err = p.sign(l.tmpl, l.ca); err != nil {
			return nil, fmt.Errorf("sign certificate %s: %w", l.name, err)
		}
	}
	for name, pr := range files {
		if err := writePair(f, name, pr); err != nil {
			return nil, err
		}
	}
	return p, writeServiceAccountKey(f)
}

// authority makes a self-signed certificate authority.
func (p *pki) authority(name string) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	tmpl := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	return p.create(tmpl, pair{cert: tmpl, key: key}, key)
}

// sign makes a new key and has the authority sign it.
func (p *pki) sign(tmpl *x509.Certificate, ca pair) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	return p.create(tmpl, ca, key)
}

func (p *pki) create(tmpl *x509.Certificate, ca pair, key crypto.Signer) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, fmt.Errorf("draw certificate serial: %w", err)
	}
	tmpl.SerialNumber = serial
	tmpl.NotBefore = p.now.Add(-backdate)
	tmpl.NotAfter = p.now.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, key.Public(), ca.key)
	if err != nil {
		return pair{}, fmt.Errorf("create certificate %s: %w", tmpl.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("parse certificate %s: %w", tmpl.Subject.CommonName, err)
	}
	return pair{cert: cert, key: key}, nil
}

func server(name string, dns []string, ips ...net.IP) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    dns,
		IPAddresses: ips,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

func client(id identity) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.user, Organization: id.groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// newKey makes an elliptic key: a sandbox starts in seconds, and RSA keys would take one of them.
func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, nil
}

func writeServiceAccountKey(f Files) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	if err := writePEM(f.pki("sa.pub"), "PUBLIC KEY", pub); err != nil {
		return err
	}
	return writeKey(f.pki("sa.key"), key)
}

func writePair(f Files, name string, p pair) error {
	if err := writePEM(f.pki(name+".crt"), "CERTIFICATE", p.cert.Raw); err != nil {
		return err
	}
	return writeKey(f.pki(name+".key"), p.key)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, encodePEM(kind, der), 0o600); err != nil {
		return fmt.Errorf("write key material: %w", err)
	}
	return nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
