// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// newProxy serves a proxy that may dial prefix; dialled addresses end at an echo server.
func newProxy(t *testing.T, prefix string) (address string) {
	t.Helper()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // what is missing shows in the test
			}()
		}
	}()
	p := &Proxy{Allow: []netip.Prefix{netip.MustParsePrefix(prefix)}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, echo.Addr().String())
	}}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

func TestProxyPassesBytesBothWaysAndTheEndOfTheStream(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", newProxy(t, "10.244.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The first bytes come with the request, as an eager client sends them.
	fmt.Fprint(conn, "CONNECT 10.244.0.1:6443 HTTP/1.1\r\nHost: 10.244.0.1:6443\r\n\r\nhello ")
	r := bufio.NewReader(conn)
	status, err := r.ReadString('\n')
	if err != nil || !strings.Contains(status, "200") {
		t.Fatalf("got %q, %v", status, err)
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "world")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "hello world" {
		t.Errorf("got %q, want %q", got, "hello world")
	}
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		request string
		want    string
	}{
		"an address outside of the sandbox": {"CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: 192.0.2.1:443\r\n\r\n", "403"},
		"the loopback interface":            {"CONNECT 127.0.0.1:2379 HTTP/1.1\r\nHost: 127.0.0.1:2379\r\n\r\n", "403"},
		"a name":                            {"CONNECT localhost:6443 HTTP/1.1\r\nHost: localhost:6443\r\n\r\n", "403"},
		"a mapped address outside":          {"CONNECT [::ffff:127.0.0.1]:2379 HTTP/1.1\r\nHost: [::ffff:127.0.0.1]:2379\r\n\r\n", "403"},
		"a plain request":                   {"GET http://10.244.0.1/ HTTP/1.1\r\nHost: 10.244.0.1\r\n\r\n", "405"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", newProxy(t, "10.244.0.0/16"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, tc.request)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := resp.Status[:3]; got != tc.want {
				t.Errorf("got status %s, want %s", got, tc.want)
			}
		})
	}
}
