// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestImagesAreProbed(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/u.raw", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5") })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") })
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/u.raw", http.StatusFound) })
	mux.HandleFunc("GET /get-only", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = w.Write([]byte("12345"))
	})
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { <-release })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })

	for name, tt := range map[string]struct {
		path string
		want world.Fetched
	}{
		"an image that is there":      {"/u.raw", world.Fetched{Final: "/u.raw", Status: "200 OK", OK: true, Length: 5}},
		"one that moved":              {"/moved", world.Fetched{Final: "/u.raw", Status: "200 OK", OK: true, Length: 5}},
		"one that is empty":           {"/empty", world.Fetched{Final: "/empty", Status: "200 OK", OK: true}},
		"one that is missing":         {"/gone", world.Fetched{Final: "/gone", Status: "404 Not Found", Length: 19}},
		"a redirect in a circle":      {"/circle", world.Fetched{Final: "/circle", Failed: "it redirects more than 10 times", Length: -1}},
		"a server that knows no HEAD": {"/get-only", world.Fetched{Final: "/get-only", Status: "200 OK", OK: true, Length: 5}},
		"a server that is silent":     {"/silent", world.Fetched{Final: "/silent", Failed: "no answer within 200ms", Length: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := imageTimeout
			if tt.path == "/silent" {
				timeout = 200 * time.Millisecond
			}
			got := probeImage(t.Context(), world.AskImage{URL: server.URL + tt.path, Checksum: "abcd"}, timeout)
			tt.want.URL, tt.want.Final = server.URL+tt.path, server.URL+tt.want.Final
			if diff := cmp.Diff(&world.ImageProbe{Image: &tt.want}, got); diff != "" {
				t.Errorf("probeImage() differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChecksumFilesAreFetched(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/sums", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("abc  u.raw\n")) })
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("x", 2*checksumBytes)))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	got := probeImage(t.Context(), world.AskImage{URL: "oci://x/y", Checksum: server.URL + "/sums"}, imageTimeout)
	if diff := cmp.Diff(&world.ImageProbe{Checksum: &world.Fetched{OK: true, Status: "200 OK", Length: 11}, ChecksumFile: "abc  u.raw\n"}, got,
		cmpopts.IgnoreFields(world.Fetched{}, "URL", "Final")); diff != "" {
		t.Errorf("a checksum file differs (-want +got):\n%s", diff)
	}
	if got = probeImage(t.Context(), world.AskImage{Checksum: server.URL + "/huge"}, imageTimeout); len(got.ChecksumFile) != checksumBytes {
		t.Errorf("%d bytes of a huge file were read, want %d", len(got.ChecksumFile), checksumBytes)
	}
}
