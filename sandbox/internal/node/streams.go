// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"k8s.io/client-go/util/exec"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// containerLogs is kubectl logs.
func (a *Agent) containerLogs(ctx context.Context, namespace, name, containerName string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	w := a.worker(namespace, name)
	if w == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not on node %s", namespace, name, a.cfg.NodeName)
	}
	w.mu.Lock()
	logs := w.logs[containerName]
	w.mu.Unlock()
	want := 1
	if opts.Previous {
		want = 2
	}
	if len(logs) < want {
		kind := ""
		if opts.Previous {
			kind = "previous terminated "
		}
		return nil, errdefs.NotFoundf("%scontainer %q in pod %q not found", kind, containerName, name)
	}
	return logs[len(logs)-want].reader(ctx, opts), nil
}

// runInContainer is kubectl exec.
func (a *Agent) runInContainer(ctx context.Context, namespace, name, containerName string, command []string, attach api.AttachIO) error {
	w, r, err := a.runOf(namespace, name, containerName)
	if err != nil {
		return err
	}
	run := w.execPipes
	if attach.TTY() {
		run = w.execTTY
	}
	code, err := run(ctx, r, command, attach)
	if err == nil && code != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return err
}

// execPipes runs a command whose streams are pipes.
func (w *worker) execPipes(ctx context.Context, r *run, command []string, attach api.AttachIO) (int, error) {
	var streams container.Streams
	var mine, theirs []*os.File
	var output sync.WaitGroup
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	defer func() { closeAll(mine) }()
	out := func(to io.Writer) (*os.File, error) {
		readEnd, writeEnd, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		mine, theirs = append(mine, readEnd), append(theirs, writeEnd)
		output.Go(func() {
			// If the client is gone there is nobody to tell.
			_, _ = io.Copy(to, readEnd)
		})
		return writeEnd, nil
	}
	var err error
	if attach.Stdout() != nil {
		if streams.Stdout, err = out(attach.Stdout()); err != nil {
			return 0, err
		}
	}
	if attach.Stderr() != nil {
		if streams.Stderr, err = out(attach.Stderr()); err != nil {
			return 0, err
		}
	}
	if in := attach.Stdin(); in != nil {
		readEnd, writeEnd, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		streams.Stdin, theirs = readEnd, append(theirs, readEnd)
		go func() {
			// Ends when the client closes or the command no longer reads.
			_, _ = io.Copy(writeEnd, in)
			writeEnd.Close()
		}()
	}
	code, err := w.exec(ctx, r, command, false, streams)
	closeAll(theirs)
	output.Wait()
	return code, err
}

// execTTY runs a command whose streams are a terminal.
func (w *worker) execTTY(ctx context.Context, r *run, command []string, attach api.AttachIO) (int, error) {
	master, terminal, err := openTerminal()
	if err != nil {
		return 0, err
	}
	defer master.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case size, ok := <-attach.Resize():
				if !ok {
					return
				}
				resizeTerminal(master, size)
			case <-ctx.Done():
				return
			}
		}
	}()
	if in := attach.Stdin(); in != nil {
		go func() {
			// Ends when the client closes or the terminal does.
			_, _ = io.Copy(master, in)
		}()
	}
	var output sync.WaitGroup
	output.Go(func() {
		// A terminal ends with an error when its last user is gone.
		_, _ = io.Copy(attach.Stdout(), master)
	})
	code, err := w.exec(ctx, r, command, true, container.Streams{Stdin: terminal, Stdout: terminal, Stderr: terminal})
	terminal.Close()
	output.Wait()
	return code, err
}

// portForward is kubectl port-forward: it dials inside the Pod, so that a server
// at 127.0.0.1 is reached too.
func (a *Agent) portForward(ctx context.Context, namespace, name string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	w := a.worker(namespace, name)
	if w == nil {
		return errdefs.NotFoundf("pod %s/%s is not on node %s", namespace, name, a.cfg.NodeName)
	}
	w.mu.Lock()
	network := w.net
	w.mu.Unlock()
	dial := new(net.Dialer).DialContext
	if network != nil {
		dial = network.Dial
	}
	conn, err := dial(ctx, "tcp", address("127.0.0.1", int(port)))
	if err != nil {
		return fmt.Errorf("forward port %d of pod %s/%s: %w", port, namespace, name, err)
	}
	defer conn.Close()
	go func() {
		// The client has no more to say, but may wait for an answer.
		_, err := io.Copy(conn, stream)
		_ = errors.Join(err, closeWrite(conn))
	}()
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(stream, conn)
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
	}
	return err
}

func closeWrite(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}
