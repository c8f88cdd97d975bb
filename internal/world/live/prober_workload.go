// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// proxyFunc finds the proxy for a request, as in rest.Config.
type proxyFunc func(*http.Request) (*url.URL, error)

// workload is one workload cluster's API server as the Prober reaches it.
type workload struct {
	name       clusterName
	management *clients
	proxy      proxyFunc
	timeout    time.Duration

	client *http.Client
	server *url.URL
	// stale tells that a call failed, so that the Secret may hold something newer.
	stale bool
	// pause is how long to wait from one read of the Secret to the next, which is not made before next.
	pause time.Duration
	next  time.Time
}

const (
	// firstPause and longestPause are between two reads of a Secret that is not there or does not help: a thousand clusters
	// without one must not mean a thousand requests a second.
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

var errNotYet = errors.New("its Secret is not read again yet")

// ready makes the cluster callable, from its Secret if that was not read yet or may have changed. An error means that
// there is nothing to call with; a Secret that can't be read again is none.
func (w *workload) ready(ctx context.Context, now time.Time) error {
	if w.client != nil && !w.stale {
		return nil
	}
	if now.Before(w.next) {
		if w.client == nil {
			return errNotYet
		}
		return nil
	}
	w.pause = min(max(2*w.pause, firstPause), longestPause)
	w.next = now.Add(w.pause)
	client, server, err := w.connect(ctx)
	if err == nil {
		w.close()
		w.client, w.server, w.stale = client, server, false
	}
	if w.client == nil {
		return err
	}
	return nil
}

func (w *workload) connect(ctx context.Context) (*http.Client, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	cfg, err := w.kubeconfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("use kubeconfig of %s: %w", w.name, err)
	}
	server, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("use kubeconfig of %s: %w", w.name, err)
	}
	// A redirect is an answer too.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: stay}, server, nil
}

// kubeconfig reads the cluster's kubeconfig from its Secret.
func (w *workload) kubeconfig(ctx context.Context) (*rest.Config, error) {
	secrets := w.management.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(w.name.namespace)
	secret, err := secrets.Get(ctx, w.name.name+"-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s: %w", w.name, err)
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "value")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s: not base64", w.name)
	}
	return workloadConfig(raw, w.proxy, w.timeout)
}

// workloadConfig reads a kubeconfig that came out of a Secret.
//
// Whoever may write that Secret must gain nothing on the machine that Capstan runs on, so what would run a program or
// read a file here is dropped; without credentials the API server still answers, and an answer is all that counts.
//
// A kubeconfig that names no proxy gets the one of the management cluster: who reaches the management cluster through
// a proxy reaches the fleet, which that cluster manages over its own network, through the same one.
func workloadConfig(raw []byte, proxy proxyFunc, timeout time.Duration) (*rest.Config, error) {
	// Errors may quote the file, so they are not passed on.
	file, err := clientcmd.Load(raw)
	if err != nil {
		return nil, errors.New("read kubeconfig: it is not well formed")
	}
	for _, u := range file.AuthInfos {
		u.Exec, u.AuthProvider = nil, nil
		u.TokenFile, u.ClientCertificate, u.ClientKey = "", "", ""
	}
	for _, c := range file.Clusters {
		c.CertificateAuthority = ""
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("read kubeconfig: it names no usable cluster")
	}
	if cfg.Proxy == nil {
		cfg.Proxy = proxy
	}
	cfg.Timeout = timeout
	cfg.QPS = -1
	return cfg, nil
}

// call asks the API server for anything; any HTTP answer counts, also a refusal. /readyz may hang on a part of the
// server, so what time is left goes to /version.
func (w *workload) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	half, cancelHalf := context.WithTimeout(ctx, w.timeout/2)
	defer cancelHalf()
	err := w.get(half, "/readyz")
	if err != nil {
		err = w.get(ctx, "/version")
	}
	if err == nil {
		w.pause, w.next = 0, time.Time{}
		return nil
	}
	// A connection that hangs must not be used for the next call.
	w.close()
	w.stale = true
	return err
}

func (w *workload) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	// The rest is read only so that the connection can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
	return nil
}

func (w *workload) close() {
	if w.client != nil {
		w.client.CloseIdleConnections()
	}
}
