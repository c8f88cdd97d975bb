// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Proxy is an HTTP CONNECT proxy from the host into the sandbox's network namespace. It dials the sandbox's own addresses and nothing else,
// so it can't be used to reach out of the machine.
type Proxy struct {
	// Allow lists the address ranges that may be dialled.
	Allow []netip.Prefix
	// Dial makes the connection; it is called inside the network namespace.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// dialTimeout bounds one dial: inside one machine an address answers at once or not at all.
const dialTimeout = 5 * time.Second

// ServeHTTP answers CONNECT requests.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this is the sandbox's CONNECT proxy; set it as proxy-url in a kubeconfig or as HTTPS_PROXY", http.StatusMethodNotAllowed)
		return
	}
	if err := p.allowed(r.Host); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
	defer cancel()
	up, err := p.Dial(ctx, "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer up.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "connection can't be taken over", http.StatusInternalServerError)
		return
	}
	down, buf, err := hijacker.Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer down.Close()
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	splice(up, down, buf)
}

func (p *Proxy) allowed(host string) error {
	ap, err := netip.ParseAddrPort(host)
	if err != nil {
		return fmt.Errorf("the sandbox's proxy dials IP addresses only, got %q", host)
	}
	for _, prefix := range p.Allow {
		if prefix.Contains(ap.Addr().Unmap()) {
			return nil
		}
	}
	return fmt.Errorf("%s is not an address of this sandbox (%v)", ap.Addr(), p.Allow)
}

// splice copies both ways until both are at their end. buffered is what the client has sent already.
func splice(up, down net.Conn, buffered io.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() { copyAndClose(up, buffered) })
	wg.Go(func() { copyAndClose(down, up) })
	wg.Wait()
}

// copyAndClose passes the end of the stream on, so that each side learns that the other is done. A failed copy shows to both ends as a
// closed connection, which is all a proxy can say.
func copyAndClose(dst net.Conn, src io.Reader) {
	_, err := io.Copy(dst, src)
	tcp, ok := dst.(interface{ CloseWrite() error })
	if err == nil && ok {
		err = tcp.CloseWrite()
	}
	if err != nil || !ok {
		_ = dst.Close() // see above
	}
}

// serve runs an HTTP server on a listener until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
