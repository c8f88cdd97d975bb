// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
)

// Config says which Node to be and where its Pods come from. Fields without
// a stated default are required.
type Config struct {
	// Client talks to the API server. It needs the rights of a kubelet and
	// those to read all Secrets and ConfigMaps; an admin client will do.
	Client kubernetes.Interface

	// NodeName is the name of the Node object.
	NodeName string
	// NodeIP is the Node's InternalIP: an address of the namespace the agent
	// runs in, different for each Node unless Port differs.
	NodeIP netip.Addr
	// Port is where the API server finds logs and exec. Default 10250.
	Port int
	// Labels are put on the Node beside the usual ones.
	Labels map[string]string
	// KubeletVersion is what the Node reports, v1.36.3 for example. It should
	// be the version of the API server, as with a real kubelet.
	KubeletVersion string
	// Capacity holds cpu, memory and pods; it is reported as capacity and
	// allocatable. Missing entries become 4 CPUs, 8Gi and 110 Pods. It can be
	// changed later with Agent.SetCapacity.
	Capacity corev1.ResourceList

	// Registry is the host:port of the registry that mirrors all others by
	// path: the image quay.io/org/app:v1 is asked for as
	// http://REGISTRY/v2/quay.io/org/app/manifests/v1.
	Registry string
	// Dir is where images, volumes and logs are kept. Agents of one sandbox
	// share it; it must not be shared between sandboxes.
	Dir string

	// APIHost and APIPort are where Pods reach the API server: they become
	// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
	APIHost string
	APIPort int
	// ClusterDNS is the name server in /etc/resolv.conf of Pods. When it is
	// not set there is none, and names are resolved from /etc/hosts alone.
	ClusterDNS netip.Addr
	// ClusterDomain is the DNS domain of the cluster. Default cluster.local.
	ClusterDomain string

	// Network gives each Pod a network namespace and an address.
	Network *netns.PodNetwork
	// SelfArgs is the argv that ends up in container.Main: the path of a binary
	// and the hidden command, {"/path/of/sandbox", "container-init"} for
	// example. The path must be visible where the agent runs.
	SelfArgs []string

	// ServingCert is the certificate of the endpoint at Port. Default: a
	// self-signed one for NodeIP and NodeName.
	ServingCert *tls.Certificate
	// ClientCAs verifies who may read logs and exec: the CA of the API server's
	// kubelet client certificate. When nil, everyone who reaches NodeIP may.
	ClientCAs *x509.CertPool

	// Clock is the time source. Default: the real clock.
	Clock clock.WithTicker
	// Log gets what a developer wants to know. Default: nothing is logged.
	Log *slog.Logger
	// BackoffScale multiplies the kubelet's back-off times (10 s doubling to
	// 5 min) so that tests need not wait. Default 1.
	BackoffScale float64
}

// withDefaults fills in what is optional and refuses what is missing.
func (c Config) withDefaults() (Config, error) {
	for _, need := range []struct {
		missing bool
		field   string
	}{
		{c.Client == nil, "Client"},
		{c.NodeName == "", "NodeName"},
		{!c.NodeIP.IsValid(), "NodeIP"},
		{c.Registry == "", "Registry"},
		{!filepath.IsAbs(c.Dir), "Dir (an absolute path)"},
		{c.APIHost == "" || c.APIPort == 0, "APIHost and APIPort"},
		{c.Network == nil, "Network"},
		{len(c.SelfArgs) == 0, "SelfArgs"},
	} {
		if need.missing {
			return c, errors.New("node config: set " + need.field)
		}
	}
	if c.Port == 0 {
		c.Port = 10250
	}
	if c.KubeletVersion == "" {
		c.KubeletVersion = "v1.36.3"
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.BackoffScale <= 0 {
		c.BackoffScale = 1
	}
	c.Capacity = completeCapacity(c.Capacity)
	return c, nil
}

// completeCapacity returns a copy of list with the defaults filled in.
func completeCapacity(list corev1.ResourceList) corev1.ResourceList {
	full := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	for name, quantity := range list {
		full[name] = quantity.DeepCopy()
	}
	return full
}

// scaled applies the back-off scale to a duration.
func (c Config) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * c.BackoffScale)
}
