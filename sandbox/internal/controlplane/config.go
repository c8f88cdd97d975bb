// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"
)

// Ports of the components inside the sandbox's network namespace.
const (
	// APIServerPort is where kube-apiserver listens.
	APIServerPort = 6443
	// KubeletPort is where the node agent serves the kubelet API (logs, exec).
	KubeletPort = 10250

	etcdClientPort        = 2379
	etcdPeerPort          = 2380
	controllerManagerPort = 10257
	schedulerPort         = 10259
)

// Binaries are the paths of the control plane's programs.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string
}

// Config says what control plane to prepare.
type Config struct {
	// Dir is the sandbox's directory; pki/, conf/, etcd/ and audit/ are made below it.
	Dir string
	// Binaries are the programs to run.
	Binaries Binaries
	// Address is the address of the API server inside the sandbox: the bridge's.
	Address netip.Addr
	// ServiceCIDR is the range cluster IPs are taken from. Nothing routes them.
	ServiceCIDR netip.Prefix
	// NodeName is the one node's name.
	NodeName string
	// ProxyURL is the HTTP CONNECT proxy through which clients outside the namespaces reach the API server.
	ProxyURL string
	// Name is used for the context in the kubeconfig.
	Name string
	// Clock dates the certificates.
	Clock clock.PassiveClock
}

// Server is the API server's URL inside the sandbox.
func (c Config) Server() string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(c.Address, APIServerPort))
}

// Files names what Prepare leaves in the sandbox's directory.
type Files struct{ dir string }

// FilesIn names the control plane's files below a sandbox's directory.
func FilesIn(dir string) Files { return Files{dir: dir} }

// Kubeconfig is the administrator's kubeconfig for clients outside of the namespaces.
func (f Files) Kubeconfig() string { return filepath.Join(f.dir, "kubeconfig") }

// AdminKubeconfig is the administrator's kubeconfig for clients inside the namespaces.
func (f Files) AdminKubeconfig() string { return f.conf("admin.conf") }

// NodeKubeconfig is the node agent's kubeconfig.
func (f Files) NodeKubeconfig() string { return f.conf("node.conf") }

// CA is the certificate of the cluster's certificate authority.
func (f Files) CA() string { return f.pki("ca.crt") }

// KubeletCert and KubeletKey serve the node agent's kubelet API.
func (f Files) KubeletCert() string { return f.pki("kubelet.crt") }

// KubeletKey is the key of KubeletCert.
func (f Files) KubeletKey() string { return f.pki("kubelet.key") }

// AuditLog is the API server's audit log.
func (f Files) AuditLog() string { return filepath.Join(f.dir, "audit", "audit.log") }

func (f Files) pki(name string) string  { return filepath.Join(f.dir, "pki", name) }
func (f Files) conf(name string) string { return filepath.Join(f.dir, "conf", name) }

// Prepare writes keys, certificates, kubeconfig files and the audit policy. It makes everything new: a sandbox never starts from old keys.
func Prepare(c Config) (Files, error) {
	f := FilesIn(c.Dir)
	for _, d := range []string{"pki", "conf", "etcd", "audit"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, d), 0o700); err != nil {
			return f, fmt.Errorf("make control plane directory: %w", err)
		}
	}
	p, err := writePKI(c, f)
	if err != nil {
		return f, err
	}
	if err := writeKubeconfigs(c, f, p); err != nil {
		return f, err
	}
	policy, err := auditPolicy()
	if err != nil {
		return f, err
	}
	if err := os.WriteFile(f.conf("audit-policy.yaml"), policy, 0o600); err != nil {
		return f, fmt.Errorf("write audit policy: %w", err)
	}
	return f, nil
}
