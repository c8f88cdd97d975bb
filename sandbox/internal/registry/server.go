// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxManifest is the size that registries agree to accept for a manifest.
const maxManifest = 4 << 20

// Serve answers on the listener until the context ends, and closes it. It returns nil when it was asked to stop.
func (l *Layered) Serve(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	server := &http.Server{
		Handler:           l.Handler(log),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve registry: %w", err)
	case <-ctx.Done():
	}
	// A pull that is under way may finish, if it does so soon.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if served := <-ended; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}

// Handler returns the HTTP side of the registry. The logger gets what went wrong here, not what clients ask wrongly; nil is fine.
func (l *Layered) Handler(log *slog.Logger) http.Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &handler{registry: l, log: log, routes: routes()}
}

type handler struct {
	registry *Layered
	log      *slog.Logger
	routes   []route
}

// route is a path of the distribution API; the expression's groups are handed to its function.
type route struct {
	methods []string
	path    *regexp.Regexp
	serve   func(h *handler, w http.ResponseWriter, r *http.Request, args []string) error
}

func routes() []route {
	// Names become paths on disk: no part of one may be "..".
	const (
		part = `[a-z0-9]+(?:[._-]+[a-z0-9]+)*`
		repo = `(` + part + `(?:/` + part + `)*)`
		ref  = `(sha256:[0-9a-f]{64}|[0-9A-Za-z_][0-9A-Za-z_.-]{0,127})`
	)
	exact := func(s string) *regexp.Regexp { return regexp.MustCompile("^" + s + "$") }
	return []route{
		{[]string{"GET", "HEAD"}, exact(`/v2/?`), (*handler).ping},
		{[]string{"GET"}, exact(`/v2/_catalog`), (*handler).catalog},
		{[]string{"GET"}, exact(`/v2/` + repo + `/tags/list`), (*handler).tags},
		{[]string{"GET", "HEAD"}, exact(`/v2/` + repo + `/manifests/` + ref), (*handler).getManifest},
		{[]string{"PUT"}, exact(`/v2/` + repo + `/manifests/` + ref), (*handler).putManifest},
		{[]string{"DELETE"}, exact(`/v2/` + repo + `/manifests/` + ref), (*handler).deleteManifest},
		{[]string{"POST"}, exact(`/v2/` + repo + `/blobs/uploads/`), (*handler).startUpload},
		{[]string{"PATCH"}, exact(`/v2/` + repo + `/blobs/uploads/([0-9A-Za-z]+)`), (*handler).patchUpload},
		{[]string{"PUT"}, exact(`/v2/` + repo + `/blobs/uploads/([0-9A-Za-z]+)`), (*handler).finishUpload},
		{[]string{"GET", "HEAD"}, exact(`/v2/` + repo + `/blobs/(sha256:[0-9a-f]{64})`), (*handler).getBlob},
	}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	for _, route := range h.routes {
		args := route.path.FindStringSubmatch(r.URL.Path)
		if args == nil || !slices.Contains(route.methods, r.Method) {
			continue
		}
		if err := route.serve(h, w, r, args[1:]); err != nil {
			h.fail(w, r, err)
		}
		return
	}
	h.fail(w, r, &apiError{http.StatusNotFound, "UNSUPPORTED", "no such operation: " + r.Method + " " + r.URL.Path})
}

// apiError is an error as the distribution API words it.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.message }

func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *apiError
	switch {
	case errors.As(err, &known):
	case errors.Is(err, errNotFound) && strings.Contains(r.URL.Path, "/blobs/"):
		known = &apiError{http.StatusNotFound, "BLOB_UNKNOWN", err.Error()}
	case errors.Is(err, errNotFound):
		known = &apiError{http.StatusNotFound, "MANIFEST_UNKNOWN", err.Error()}
	default:
		h.log.ErrorContext(r.Context(), "Registry request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		known = &apiError{http.StatusInternalServerError, "UNKNOWN", err.Error()}
	}
	type entry struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	h.json(w, r, known.status, map[string][]entry{"errors": {{known.code, known.message}}})
}

func (h *handler) json(w http.ResponseWriter, r *http.Request, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		h.log.DebugContext(r.Context(), "Client went away", "path", r.URL.Path, "error", err)
	}
}
