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
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Exec runs a command inside the sandbox's namespaces with the caller's own streams. The caller's file descriptors travel over a Unix socket,
// because a Go program has threads and so can't enter a user namespace itself.

// execRequest is the command to run.
type execRequest struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// execResult is how it ended. Err is set when it could not be started.
type execResult struct {
	Code int    `json:"code"`
	Err  string `json:"err,omitempty"`
}

// Exec runs argv inside the sandbox and returns its exit code. Ending ctx ends the command.
func (c *Client) Exec(ctx context.Context, argv, env []string, dir string, streams [3]*os.File) (int, error) {
	u, err := dialUnix(ctx, c.dir, execSocket)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer u.Close()
	stop := context.AfterFunc(ctx, func() { _ = u.Close() })
	defer stop()
	data, err := json.Marshal(execRequest{Argv: argv, Env: env, Dir: dir})
	if err != nil {
		return 0, fmt.Errorf("encode exec request: %w", err)
	}
	rights := unix.UnixRights(int(streams[0].Fd()), int(streams[1].Fd()), int(streams[2].Fd()))
	if _, _, err := u.WriteMsgUnix(data[:1], rights, nil); err != nil {
		return 0, fmt.Errorf("send streams: %w", err)
	}
	if _, err := u.Write(data[1:]); err != nil {
		return 0, fmt.Errorf("send exec request: %w", err)
	}
	var res execResult
	if err := json.NewDecoder(u).Decode(&res); err != nil {
		return 0, fmt.Errorf("wait for command: %w", err)
	}
	if res.Err != "" {
		return 0, errors.New(res.Err)
	}
	return res.Code, nil
}

// serveExec accepts exec requests until ctx ends.
func (s *Supervisor) serveExec(ctx context.Context, l *net.UnixListener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Log.Error("Exec socket closed", "err", err)
			}
			return
		}
		s.wg.Go(func() {
			defer conn.Close()
			if err := s.exec(ctx, conn); err != nil {
				s.cfg.Log.Error("Exec request failed", "err", err)
			}
		})
	}
}

func (s *Supervisor) exec(ctx context.Context, u *net.UnixConn) error {
	req, files, err := readExec(u)
	defer func() {
		for _, f := range files {
			_ = f.Close() // the command has its own
		}
	}()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, req.Argv[0], req.Argv[1:]...)
	cmd.Env, cmd.Dir = req.Env, req.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	res := execResult{}
	err = cmd.Start()
	if err == nil {
		// The client sends nothing more; the end of its stream means that it is gone, and the command with it.
		s.wg.Go(func() { untilGone(u); cancel() })
		err = cmd.Wait()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		res.Code, err = exit.ExitCode(), nil
	}
	if err != nil {
		res.Err = err.Error()
	}
	if err := json.NewEncoder(u).Encode(res); err != nil {
		return fmt.Errorf("answer exec request: %w", err)
	}
	return nil
}

// readExec reads the three streams, which come with the first byte, and the request.
func readExec(u *net.UnixConn) (execRequest, []*os.File, error) {
	var req execRequest
	first, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := u.ReadMsgUnix(first, oob)
	if err != nil {
		return req, nil, fmt.Errorf("read streams: %w", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return req, nil, fmt.Errorf("read streams: want one control message, got %d (%w)", len(msgs), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return req, nil, fmt.Errorf("read streams: %w", err)
	}
	files := make([]*os.File, 0, len(fds))
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "stream"))
	}
	if len(files) != 3 {
		return req, files, fmt.Errorf("read streams: want 3, got %d", len(files))
	}
	if err := json.NewDecoder(io.MultiReader(bytes.NewReader(first[:n]), u)).Decode(&req); err != nil {
		return req, files, fmt.Errorf("decode exec request: %w", err)
	}
	if len(req.Argv) == 0 {
		return req, files, errors.New("exec request without a command")
	}
	return req, files, nil
}

// untilGone blocks until the other end has closed the connection.
func untilGone(u *net.UnixConn) {
	for buf := make([]byte, 16); ; {
		if _, err := u.Read(buf); err != nil {
			return
		}
	}
}
