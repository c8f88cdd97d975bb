// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Component is one process of the control plane.
type Component struct {
	// Name is the component's name and its log file's.
	Name string
	// Path and Args are its command line.
	Path string
	Args []string
	// Health returns nil when the component serves.
	Health func(ctx context.Context) error
}

// healthTimeout bounds one health request.
const healthTimeout = 2 * time.Second

// Components returns the processes in the order they are to be started; each needs the ones before it.
func Components(c Config, f Files) ([]Component, error) {
	api, err := clientcmd.BuildConfigFromFlags("", f.AdminKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read admin kubeconfig: %w", err)
	}
	ready, err := httpHealth(api, c.Server()+"/readyz")
	if err != nil {
		return nil, err
	}
	return []Component{
		{"etcd", c.Binaries.Etcd, etcdArgs(c), plainHealth(loopback("http", etcdClientPort) + "/readyz")},
		{"kube-apiserver", c.Binaries.APIServer, apiServerArgs(c, f), ready},
		{
			"kube-controller-manager", c.Binaries.ControllerManager, controllerManagerArgs(c, f),
			plainHealth(loopback("https", controllerManagerPort) + "/healthz"),
		},
		{"kube-scheduler", c.Binaries.Scheduler, schedulerArgs(f), plainHealth(loopback("https", schedulerPort) + "/healthz")},
	}, nil
}

// etcdArgs trades durability for speed: a sandbox that loses power is started anew.
func etcdArgs(c Config) []string {
	client, peer := loopback("http", etcdClientPort), loopback("http", etcdPeerPort)
	return flags(map[string]string{
		"name":                        "sandbox",
		"data-dir":                    filepath.Join(c.Dir, "etcd"),
		"listen-client-urls":          client,
		"advertise-client-urls":       client,
		"listen-peer-urls":            peer,
		"initial-advertise-peer-urls": peer,
		"initial-cluster":             "sandbox=" + peer,
		"unsafe-no-fsync":             "true",
		"auto-compaction-mode":        "periodic",
		"auto-compaction-retention":   "10m",
		"log-level":                   "warn",
	})
}

// apiServerArgs: aggregator routing makes the API server dial the Pod IPs of a Service's endpoints, so webhooks need no kube-proxy.
func apiServerArgs(c Config, f Files) []string {
	return flags(map[string]string{
		"bind-address":                       "0.0.0.0",
		"advertise-address":                  c.Address.String(),
		"secure-port":                        fmt.Sprint(APIServerPort),
		"etcd-servers":                       loopback("http", etcdClientPort),
		"service-cluster-ip-range":           c.ServiceCIDR.String(),
		"enable-aggregator-routing":          "true",
		"allow-privileged":                   "true",
		"authorization-mode":                 "Node,RBAC",
		"client-ca-file":                     f.CA(),
		"tls-cert-file":                      f.pki("apiserver.crt"),
		"tls-private-key-file":               f.pki("apiserver.key"),
		"kubelet-certificate-authority":      f.CA(),
		"kubelet-client-certificate":         f.pki("apiserver-kubelet-client.crt"),
		"kubelet-client-key":                 f.pki("apiserver-kubelet-client.key"),
		"kubelet-preferred-address-types":    "InternalIP",
		"service-account-issuer":             "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":           f.pki("sa.pub"),
		"service-account-signing-key-file":   f.pki("sa.key"),
		"requestheader-client-ca-file":       f.pki("front-proxy-ca.crt"),
		"requestheader-allowed-names":        "front-proxy-client",
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"proxy-client-cert-file":             f.pki("front-proxy-client.crt"),
		"proxy-client-key-file":              f.pki("front-proxy-client.key"),
		"audit-policy-file":                  f.conf("audit-policy.yaml"),
		"audit-log-path":                     f.AuditLog(),
		"audit-log-mode":                     "blocking",
		"audit-log-maxsize":                  "4096",
		"profiling":                          "false",
	})
}

func controllerManagerArgs(c Config, f Files) []string {
	conf := f.conf("controller-manager.conf")
	return flags(map[string]string{
		"bind-address":                     "127.0.0.1",
		"secure-port":                      fmt.Sprint(controllerManagerPort),
		"kubeconfig":                       conf,
		"authentication-kubeconfig":        conf,
		"authorization-kubeconfig":         conf,
		"leader-elect":                     "false",
		"use-service-account-credentials":  "true",
		"root-ca-file":                     f.CA(),
		"service-account-private-key-file": f.pki("sa.key"),
		"cluster-signing-cert-file":        f.CA(),
		"cluster-signing-key-file":         f.pki("ca.key"),
		"service-cluster-ip-range":         c.ServiceCIDR.String(),
		"allocate-node-cidrs":              "false",
		"profiling":                        "false",
	})
}

func schedulerArgs(f Files) []string {
	conf := f.conf("scheduler.conf")
	return flags(map[string]string{
		"bind-address":              "127.0.0.1",
		"secure-port":               fmt.Sprint(schedulerPort),
		"kubeconfig":                conf,
		"authentication-kubeconfig": conf,
		"authorization-kubeconfig":  conf,
		"leader-elect":              "false",
		"profiling":                 "false",
	})
}

// plainHealth asks a component on the loopback interface of the sandbox's own network namespace; nobody else can listen there, so its
// self-signed certificate needs no check.
func plainHealth(url string) func(context.Context) error {
	c := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // loopback of a private network namespace
	}}
	return func(ctx context.Context) error { return ask(ctx, c, url) }
}

func httpHealth(cfg *rest.Config, url string) (func(context.Context) error, error) {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make health client: %w", err)
	}
	c.Timeout = healthTimeout
	return func(ctx context.Context) error { return ask(ctx, c, url) }, nil
}

func ask(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make health request: %w", err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return err //nolint:wrapcheck // the URL is in the error already
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 2048))
	if err != nil {
		return fmt.Errorf("read health answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, failedChecks(string(body)))
	}
	return nil
}

// failedChecks keeps the lines of a Kubernetes health answer that say what is wrong.
func failedChecks(body string) string {
	var bad []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "[-]") {
			bad = append(bad, strings.TrimSpace(line))
		}
	}
	if len(bad) == 0 {
		return strings.TrimSpace(body)
	}
	return strings.Join(bad, "; ")
}

func loopback(scheme string, port uint16) string {
	return scheme + "://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String()
}
