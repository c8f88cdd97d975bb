// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit bounds the wait for one answer of a supervisor: one that takes longer is stuck.
const answerLimit = 10 * time.Second

// ErrNotRunning means that no supervisor answers for a sandbox's directory.
var ErrNotRunning = errors.New("no sandbox is running here")

// ErrStuck means that there is a supervisor, but that it does not answer.
var ErrStuck = errors.New("the sandbox's supervisor does not answer")

// Client talks to the supervisor of one sandbox.
type Client struct {
	dir  string
	http *http.Client
}

// NewClient makes a client; it does not connect yet.
func NewClient(l Layout) *Client {
	c := &Client{dir: l.Dir}
	c.http = &http.Client{Timeout: answerLimit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialUnix(ctx, l.Dir, controlSocket)
		},
	}}
	return c
}

// Status asks for the whole picture.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var st Status
	return st, c.do(ctx, http.MethodGet, "/status", nil, &st)
}

// Shutdown asks the supervisor to end. It returns before it has.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/shutdown", nil, &Status{})
}

// SetNode changes what the node offers to Pods.
func (c *Client) SetNode(ctx context.Context, r NodeResources) error {
	return c.do(ctx, http.MethodPut, "/node", r, &struct{}{})
}

// Images lists the registry.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	var list []Image
	return list, c.do(ctx, http.MethodGet, "/images", nil, &list)
}

// AddImage gives an image another name.
func (c *Client) AddImage(ctx context.Context, name, from string) (Image, error) {
	var img Image
	return img, c.do(ctx, http.MethodPost, "/images", addImage{Name: name, From: from}, &img)
}

// RemoveImage takes a name out of the registry.
func (c *Client) RemoveImage(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/images?"+url.Values{"name": {name}}.Encode(), nil, &struct{}{})
}

// HostPID is the supervisor's process ID as the caller's PID namespace sees it.
func (c *Client) HostPID(ctx context.Context) (int, error) {
	conn, err := dialUnix(ctx, c.dir, controlSocket)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("read peer of control socket: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("read peer of control socket: %w", err)
	}
	return int(cred.Pid), nil
}

func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://sandbox"+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := c.http.Do(req)
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return fmt.Errorf("%w: %w", ErrStuck, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the supervisor's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(answer)))
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode the supervisor's answer: %w", err)
	}
	return nil
}

func dialUnix(ctx context.Context, dir, name string) (*net.UnixConn, error) {
	path, d, err := unixPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("connect to %s: it is a %T", name, conn)
	}
	return u, nil
}
