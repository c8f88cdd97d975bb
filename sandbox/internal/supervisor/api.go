// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
)

// addImage is the body of a request for another name of an image.
type addImage struct {
	Name string `json:"name"`
	From string `json:"from"`
}

// ErrNotReady is returned while the part that would do what was asked for is not running yet.
var ErrNotReady = errors.New("the sandbox is still starting")

// serveControl opens the sandbox's Unix sockets. Who may open them is decided by the mode of the directory, which belongs to one user.
func (s *Supervisor) serveControl(ctx context.Context) error {
	control, err := listenUnix(s.cfg.Layout.Dir, controlSocket)
	if err != nil {
		return err
	}
	execs, err := listenUnix(s.cfg.Layout.Dir, execSocket)
	if err != nil {
		return err
	}
	s.wg.Go(func() {
		if err := serve(ctx, control, s.controlHandler()); err != nil {
			s.cfg.Log.Error("Control socket closed", "err", err)
		}
	})
	s.wg.Go(func() { s.serveExec(ctx, execs) })
	return nil
}

func (s *Supervisor) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.status(), nil) })
	mux.HandleFunc("POST /shutdown", func(w http.ResponseWriter, _ *http.Request) {
		s.setPhase(PhaseStopping, "")
		answer(w, s.status(), nil)
		s.stop()
	})
	mux.HandleFunc("PUT /node", s.putNode)
	mux.HandleFunc("GET /images", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.cfg.Images.List(r.Context())
		answer(w, list, err)
	})
	mux.HandleFunc("POST /images", func(w http.ResponseWriter, r *http.Request) {
		var body addImage
		if !decode(w, r, &body) {
			return
		}
		img, err := s.cfg.Images.Add(r.Context(), body.Name, body.From)
		answer(w, img, err)
	})
	mux.HandleFunc("DELETE /images", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, s.cfg.Images.Remove(r.Context(), r.URL.Query().Get("name")))
	})
	return mux
}

func (s *Supervisor) putNode(w http.ResponseWriter, r *http.Request) {
	var body NodeResources
	if !decode(w, r, &body) {
		return
	}
	s.mu.Lock()
	node := s.node
	s.mu.Unlock()
	if node == nil {
		answer(w, nil, ErrNotReady)
		return
	}
	answer(w, struct{}{}, node.SetResources(r.Context(), body))
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// answer writes the value, or the error as plain text. A client that is gone can't be told anything.
func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data) //nolint:errcheck // see above
}

// unixPath gives a socket a path that fits into the kernel's 108 bytes, however long the directory's name is. The file must stay open while
// the path is used.
func unixPath(dir, name string) (string, *os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("open sandbox directory: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), d, nil
}

func listenUnix(dir, name string) (*net.UnixListener, error) {
	path, d, err := unixPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	l.SetUnlinkOnClose(false) // the path is of no use once d is closed
	return l, nil
}
