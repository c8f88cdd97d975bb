// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// TestC25_ArtifactCanNotBeFetched breaks one source of three in the ways that sources break. Nothing is changed, and the
// answer names the component and the address.
func TestC25_ArtifactCanNotBeFetched(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	var answer atomic.Pointer[http.HandlerFunc]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/broken") {
			(*answer.Load())(w, r)
			return
		}
		_, _ = w.Write([]byte(configMap(strings.TrimPrefix(r.URL.Path, "/"), "one"))) //nolint:gosec // no browser reads it
	}))
	defer server.Close()
	refused := func(t *testing.T, pieces ...string) {
		t.Helper()
		dir := urlRelease(t, server.URL, "first", "broken", "last")
		for _, args := range [][]string{{"plan", dir}, {"upgrade", dir, "--yes"}, {"upgrade", dir, "--yes", "-o", "json"}} {
			b.refused(t, b.capstan(t, args...), append(pieces, "component", "broken", server.URL+"/broken")...)
		}
	}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		pieces []string
	}{
		"not found":                    {answer: status(http.StatusNotFound), pieces: []string{"404"}},
		"too many requests for long":   {answer: status(http.StatusTooManyRequests, "Retry-After", "3600"), pieces: []string{"429", "1h0m0s"}},
		"a gateway that never answers": {answer: status(http.StatusGatewayTimeout, "Retry-After", "600"), pieces: []string{"504"}},
		"not allowed":                  {answer: status(http.StatusForbidden), pieces: []string{"403"}},
		"cut off": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("apiVersion: v1"))
		}, pieces: []string{"unexpected EOF"}},
		"other content": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(configMap("broken", "changed"))) }, pieces: []string{"digest"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer.Store(&tc.answer)
			refused(t, tc.pieces...)
		})
	}
	t.Run("busy for a moment", func(t *testing.T) {
		var calls atomic.Int64
		soon := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) < 3 {
				status(http.StatusTooManyRequests, "Retry-After", "0")(w, r)
				return
			}
			_, _ = w.Write([]byte(configMap("broken", "one")))
		})
		answer.Store(&soon)
		r := b.capstan(t, "plan", urlRelease(t, server.URL, "first", "broken", "last"), "-o", "json")
		want(t, r, problem.ExitDone, `"artifact": "sha256:`)
		if n := strings.Count(r.stdout, `"artifact": "sha256:`); n != 3 {
			t.Errorf("the plan has the digests of %d artifacts, want 3", n)
		}
	})
}

// TestC25_Offline plans with what is here alone.
func TestC25_Offline(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer server.Close()
	dir := urlRelease(t, server.URL, "first")
	for _, args := range [][]string{{"plan", dir, "--offline"}, {"upgrade", dir, "--offline", "--yes"}} {
		b.refused(t, b.capstan(t, args...), `"first"`, server.URL+"/first", "--offline")
	}
	host := strings.TrimPrefix(server.URL, "http://")
	b.refused(t, b.capstan(t, "plan", "oci://"+host+"/release:v1", "--offline"), "oci://"+host)
	if n := calls.Load(); n > 0 {
		t.Errorf("%d requests were made", n)
	}
	local := writeRelease(t, "v1.0.0", "", part{name: "first", version: "v1.0.0", manifests: configMap("first", "one")})
	want(t, b.capstan(t, "plan", local, "--offline"), problem.ExitDone, "--offline")
	want(t, b.capstan(t, "upgrade", local, "--offline", "--yes"), problem.ExitDone)
}

// urlRelease is a release whose components come from a server, each by its name.
func urlRelease(t *testing.T, server string, names ...string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata: {name: fetched}\nspec:\n  version: v1.0.0\n  components:\n")
	for _, n := range names {
		text.WriteString("  - {name: " + n + ", type: manifest, version: v1.0.0, source: {url: " + server + "/" + n + ", digest: " + release.Digest([]byte(configMap(n, "one"))) + "}}\n")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "release.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\ndata: {a: " + value + "}\n"
}
