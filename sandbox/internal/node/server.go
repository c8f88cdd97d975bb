// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// listen opens the endpoint of logs, exec and port-forward; the returned
// function serves it until its context ends.
func (a *Agent) listen() (func(context.Context) error, error) {
	config, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.cfg.NodeIP, uint16(a.cfg.Port)))) //nolint:gosec // a port
	if err != nil {
		return nil, fmt.Errorf("open node endpoint: %w", err)
	}
	server := &http.Server{
		Handler: a.handler(), ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(a.cfg.Log.Handler(), slog.LevelDebug),
	}
	return func(ctx context.Context) error {
		server.BaseContext = func(net.Listener) context.Context { return ctx }
		stop := context.AfterFunc(ctx, func() {
			// Streams may last for ever: there is nothing to wait for.
			_ = server.Close()
		})
		defer stop()
		if err := server.Serve(tls.NewListener(listener, config)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve node endpoint: %w", err)
		}
		return nil
	}, nil
}

func (a *Agent) handler() http.Handler {
	return api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs: a.containerLogs,
		RunInContainer:   a.runInContainer,
		PortForward:      a.portForward,
		GetPods:          a.GetPods,
		GetPodsFromKubernetes: func(context.Context) ([]*corev1.Pod, error) {
			return a.informers.podFactory.Core().V1().Pods().Lister().List(labels.Everything())
		},
		StreamIdleTimeout:     streamIdle,
		StreamCreationTimeout: 30 * time.Second,
	}, true)
}

func (a *Agent) tlsConfig() (*tls.Config, error) {
	// The streams of exec and port-forward need HTTP/1.1.
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if a.cfg.ClientCAs != nil {
		config.ClientCAs, config.ClientAuth = a.cfg.ClientCAs, tls.RequireAndVerifyClientCert
	}
	if a.cfg.ServingCert != nil {
		config.Certificates = []tls.Certificate{*a.cfg.ServingCert}
		return config, nil
	}
	cert, err := selfSigned(a.cfg)
	if err != nil {
		return nil, fmt.Errorf("make serving certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{cert}
	return config, nil
}

func selfSigned(cfg Config) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := cfg.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "system:node:" + cfg.NodeName},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{cfg.NodeName}, IPAddresses: []net.IP{cfg.NodeIP.AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
