// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probeTarget is what a probe is aimed at.
type probeTarget struct {
	ip        string
	container corev1.Container
	exec      func(ctx context.Context, command []string) (output string, code int, err error)
}

// attempt makes one attempt; nil is success. The error's text is for an event.
func attempt(ctx context.Context, handler corev1.ProbeHandler, target probeTarget, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case handler.HTTPGet != nil:
		return attemptHTTP(ctx, handler.HTTPGet, target)
	case handler.TCPSocket != nil:
		return attemptTCP(ctx, handler.TCPSocket, target)
	case handler.GRPC != nil:
		return attemptGRPC(ctx, handler.GRPC, target)
	case handler.Exec != nil:
		output, code, err := target.exec(ctx, handler.Exec.Command)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("%s", output)
		}
		return nil
	}
	return fmt.Errorf("missing probe handler")
}

// resolvePort looks a named port up in the container.
func resolvePort(port intstr.IntOrString, c corev1.Container) (int, error) {
	n := port.IntValue()
	if port.Type == intstr.String {
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })
		if i >= 0 {
			n = int(c.Ports[i].ContainerPort)
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("invalid port %s of container %s", port.String(), c.Name)
	}
	return n, nil
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func attemptTCP(ctx context.Context, probe *corev1.TCPSocketAction, target probeTarget) error {
	port, err := resolvePort(probe.Port, target.container)
	if err != nil {
		return err
	}
	host := probe.Host
	if host == "" {
		host = target.ip
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(host, port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func attemptHTTP(ctx context.Context, probe *corev1.HTTPGetAction, target probeTarget) error {
	port, err := resolvePort(probe.Port, target.container)
	if err != nil {
		return err
	}
	host, scheme := probe.Host, "http"
	if host == "" {
		host = target.ip
	}
	if probe.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	path := probe.Path
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address(host, port)+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-probe/1.36")
	req.Header.Set("Accept", "*/*")
	for _, h := range probe.HTTPHeaders {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			req.Host = h.Value
			continue
		}
		req.Header.Add(h.Name, h.Value)
	}
	return doProbe(req)
}

func doProbe(req *http.Request) error {
	client := &http.Client{
		// As with a kubelet, certificates are not verified and nothing is kept.
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // what a probe does
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if next.URL.Hostname() != req.URL.Hostname() || len(via) > 9 {
				return http.ErrUseLastResponse // counts as success, as with a kubelet
			}
			return nil
		},
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10)); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	return nil
}
