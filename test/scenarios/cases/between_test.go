// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/cli"
)

// command runs one command line in this process. Cancelling ctx is what a signal would do.
func command(ctx context.Context, kubeconfig string, args ...string) result {
	var out, errs bytes.Buffer
	code := cli.Run(ctx, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, append(args, "--kubeconfig", kubeconfig))
	return result{stdout: out.String(), stderr: errs.String(), code: code}
}

// between puts something between Capstan and the API server until the test ends, and returns a kubeconfig that leads
// through it. A connection that the API server cuts is cut for Capstan too.
func (b *bed) between(t *testing.T, put func(next http.Handler) http.Handler) string {
	t.Helper()
	transport, err := rest.TransportFor(b.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(b.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(put(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	file(t, kubeconfig, fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n", server.URL))
	return kubeconfig
}
