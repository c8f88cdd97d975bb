// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func (h *handler) putManifest(w http.ResponseWriter, r *http.Request, args []string) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		return &apiError{http.StatusBadRequest, "MANIFEST_INVALID", err.Error()}
	}
	if !json.Valid(text) {
		return &apiError{http.StatusBadRequest, "MANIFEST_INVALID", "manifest is not JSON"}
	}
	digest, err := h.registry.Upper.writeBlob(strings.NewReader(string(text)), nil)
	if err != nil {
		return err
	}
	if !strings.Contains(args[1], ":") {
		if err := h.registry.Upper.writeTag(args[0], args[1], digest.String()); err != nil {
			return err
		}
	}
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("Location", "/v2/"+args[0]+"/manifests/"+digest.String())
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (h *handler) deleteManifest(w http.ResponseWriter, _ *http.Request, args []string) error {
	if strings.Contains(args[1], ":") {
		return &apiError{http.StatusMethodNotAllowed, "UNSUPPORTED", "delete tags, not digests"}
	}
	if _, err := h.registry.resolve(args[0], args[1]); err != nil {
		return err
	}
	if err := h.registry.Upper.writeTag(args[0], args[1], removed); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// startUpload begins an upload; with a digest in the query the body is the whole blob.
func (h *handler) startUpload(w http.ResponseWriter, r *http.Request, args []string) error {
	if r.URL.Query().Get("digest") != "" {
		return h.storeBlob(w, r, args[0], r.Body)
	}
	dir := filepath.Join(h.registry.Upper.Dir, "uploads")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "upload")
	if err != nil {
		return err
	}
	h.uploadStatus(w, args[0], filepath.Base(f.Name()), 0)
	return f.Close()
}

func (h *handler) patchUpload(w http.ResponseWriter, r *http.Request, args []string) error {
	f, err := h.openUpload(args[1], os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r.Body)
	info, statErr := f.Stat()
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		return err
	}
	h.uploadStatus(w, args[0], args[1], info.Size())
	return nil
}

func (h *handler) finishUpload(w http.ResponseWriter, r *http.Request, args []string) error {
	f, err := h.openUpload(args[1], os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its content is a blob by now
	defer func() { _ = f.Close() }()           // only read from
	return h.storeBlob(w, r, args[0], io.MultiReader(f, r.Body))
}

func (h *handler) openUpload(id string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(h.registry.Upper.Dir, "uploads", id), flags, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &apiError{http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "no upload " + id}
	}
	return f, err
}

func (h *handler) uploadStatus(w http.ResponseWriter, repo, id string, size int64) {
	w.Header().Set("Location", "/v2/"+repo+"/blobs/uploads/"+id)
	w.Header().Set("Docker-Upload-Uuid", id)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	w.WriteHeader(http.StatusAccepted)
}

func (h *handler) storeBlob(w http.ResponseWriter, r *http.Request, repo string, body io.Reader) error {
	digest, err := v1.NewHash(r.URL.Query().Get("digest"))
	if err != nil {
		return &apiError{http.StatusBadRequest, "DIGEST_INVALID", err.Error()}
	}
	if _, err := h.registry.Upper.writeBlob(body, &digest); err != nil {
		return &apiError{http.StatusBadRequest, "DIGEST_INVALID", err.Error()}
	}
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("Location", "/v2/"+repo+"/blobs/"+digest.String())
	w.WriteHeader(http.StatusCreated)
	return nil
}
