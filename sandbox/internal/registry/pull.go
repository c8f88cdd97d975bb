// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func (h *handler) ping(w http.ResponseWriter, r *http.Request, _ []string) error {
	h.json(w, r, http.StatusOK, struct{}{})
	return nil
}

func (h *handler) catalog(w http.ResponseWriter, r *http.Request, _ []string) error {
	repos, err := h.repositories()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(repos))
	for repo := range repos {
		names = append(names, repo)
	}
	slices.Sort(names)
	h.json(w, r, http.StatusOK, map[string][]string{"repositories": names})
	return nil
}

func (h *handler) tags(w http.ResponseWriter, r *http.Request, args []string) error {
	repos, err := h.repositories()
	if err != nil {
		return err
	}
	tags, ok := repos[args[0]]
	if !ok {
		return &apiError{http.StatusNotFound, "NAME_UNKNOWN", "no repository " + args[0]}
	}
	h.json(w, r, http.StatusOK, map[string]any{"name": args[0], "tags": tags})
	return nil
}

// repositories maps repositories to their tags, in order.
func (h *handler) repositories() (map[string][]string, error) {
	images, err := h.registry.Images()
	repos := map[string][]string{}
	for _, image := range images {
		i := strings.LastIndex(image.Name, ":")
		repos[image.Name[:i]] = append(repos[image.Name[:i]], image.Name[i+1:])
	}
	return repos, err
}

func (h *handler) getManifest(w http.ResponseWriter, r *http.Request, args []string) error {
	digest, err := h.registry.resolve(args[0], args[1])
	if err != nil {
		return err
	}
	f, size, err := h.registry.open(digest)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, min(size, maxManifest)))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	var manifest struct {
		MediaType string `json:"mediaType"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return &apiError{http.StatusNotFound, "MANIFEST_UNKNOWN", digest.String() + " is no manifest"}
	}
	w.Header().Set("Content-Type", cmp.Or(manifest.MediaType, string(types.OCIManifestSchema1)))
	return h.content(w, r, digest, int64(len(text)), strings.NewReader(string(text)))
}

func (h *handler) getBlob(w http.ResponseWriter, r *http.Request, args []string) error {
	digest, err := v1.NewHash(args[1])
	if err != nil {
		return &apiError{http.StatusBadRequest, "DIGEST_INVALID", err.Error()}
	}
	f, size, err := h.registry.open(digest)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	w.Header().Set("Content-Type", "application/octet-stream")
	return h.content(w, r, digest, size, f)
}

// content sends a body, or its headers alone.
func (h *handler) content(w http.ResponseWriter, r *http.Request, digest v1.Hash, size int64, body io.Reader) error {
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		// Too late for another status.
		h.log.DebugContext(r.Context(), "Client went away", "path", r.URL.Path, "error", err)
	}
	return nil
}
