// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostsFile is a Pod's /etc/hosts. There may be no DNS, so it names the API
// server too.
func hostsFile(pod *corev1.Pod, cfg Config, ip string) string {
	var b strings.Builder
	b.WriteString("# Made by the sandbox for this Pod.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	names := hostname(pod)
	if pod.Spec.Subdomain != "" {
		names = fmt.Sprintf("%s.%s.%s.svc.%s\t%s", names, pod.Spec.Subdomain, pod.Namespace, cfg.ClusterDomain, names)
	}
	fmt.Fprintf(&b, "%s\t%s\n", ip, names)
	fmt.Fprintf(&b, "%s\tkubernetes.default.svc.%s kubernetes.default.svc kubernetes.default kubernetes\n", cfg.APIHost, cfg.ClusterDomain)
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return b.String()
}

// resolvFile is a Pod's /etc/resolv.conf.
func resolvFile(pod *corev1.Pod, cfg Config) string {
	var servers, search, options []string
	if cfg.ClusterDNS.IsValid() && pod.Spec.DNSPolicy != corev1.DNSNone {
		servers = []string{cfg.ClusterDNS.String()}
		search = []string{pod.Namespace + ".svc." + cfg.ClusterDomain, "svc." + cfg.ClusterDomain, cfg.ClusterDomain}
		options = []string{"ndots:5"}
	}
	if dns := pod.Spec.DNSConfig; dns != nil {
		servers, search = append(servers, dns.Nameservers...), append(search, dns.Searches...)
		for _, o := range dns.Options {
			text := o.Name
			if o.Value != nil {
				text += ":" + *o.Value
			}
			options = append(options, text)
		}
	}
	if len(servers) == 0 {
		// The resolver falls back to 127.0.0.1, which refuses at once.
		options = append(options, "attempts:1", "timeout:1")
	}
	var b strings.Builder
	if len(search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.String()
}

// hostname is the name a Pod's containers see: at most 63 characters.
func hostname(pod *corev1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	return name
}

// serviceEnv tells Pods where the API server is, as the kubelet does for the
// Service kubernetes.
func serviceEnv(cfg Config) map[string]string {
	host, port := cfg.APIHost, fmt.Sprint(cfg.APIPort)
	url := "tcp://" + host + ":" + port
	return map[string]string{
		"KUBERNETES_SERVICE_HOST":                host,
		"KUBERNETES_SERVICE_PORT":                port,
		"KUBERNETES_SERVICE_PORT_HTTPS":          port,
		"KUBERNETES_PORT":                        url,
		"KUBERNETES_PORT_" + port + "_TCP":       url,
		"KUBERNETES_PORT_" + port + "_TCP_PROTO": "tcp",
		"KUBERNETES_PORT_" + port + "_TCP_PORT":  port,
		"KUBERNETES_PORT_" + port + "_TCP_ADDR":  host,
	}
}
