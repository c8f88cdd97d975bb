// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// errEnough ends reading when the byte limit is reached.
var errEnough = errors.New("enough")

// reader returns what opts ask for. It must be closed.
func (l *containerLog) reader(ctx context.Context, opts api.ContainerLogOpts) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	pipeR, pipeW := io.Pipe()
	go func() {
		err := l.stream(ctx, pipeW, opts)
		if errors.Is(err, errEnough) || errors.Is(err, context.Canceled) {
			err = nil
		}
		pipeW.CloseWithError(err)
	}()
	return &logReader{PipeReader: pipeR, cancel: cancel}
}

type logReader struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (r *logReader) Close() error {
	r.cancel()
	return r.PipeReader.Close()
}

func (l *containerLog) stream(ctx context.Context, w io.Writer, opts api.ContainerLogOpts) error {
	out := &logWriter{w: w, timestamps: opts.Timestamps, since: opts.SinceTime, limit: opts.LimitBytes, lineStart: true}
	if opts.SinceSeconds > 0 {
		out.since = l.clock.Now().Add(-time.Duration(opts.SinceSeconds) * time.Second)
	}
	generation, _, _ := l.state()
	file, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { file.Close() }()
	older, err := os.ReadFile(l.older())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read rotated log: %w", err)
	}
	present, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	whole := bytes.LastIndexByte(present, '\n') + 1
	if err := out.all(tail(append(older, present[:whole]...), opts.Tail)); err != nil || !opts.Follow {
		return err
	}
	if _, err := file.Seek(int64(whole), io.SeekStart); err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	return l.follow(ctx, out, file, generation)
}

// follow goes on until the log is closed or ctx ends. Lines are written whole,
// so the end of the file is the end of a line.
func (l *containerLog) follow(ctx context.Context, out *logWriter, file *os.File, generation int) error {
	opened := []*os.File{}
	defer func() {
		for _, f := range opened {
			f.Close()
		}
	}()
	for {
		// The state comes first: what is written after it closes changed.
		now, closed, changed := l.state()
		data, err := io.ReadAll(file)
		if err != nil {
			return fmt.Errorf("follow log: %w", err)
		}
		if err := out.all(data); err != nil {
			return err
		}
		if now != generation {
			generation = now
			if file, err = os.Open(l.path); err != nil {
				return fmt.Errorf("follow log: %w", err)
			}
			opened = append(opened, file)
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tail returns the last n lines of data, all for 0.
func tail(data []byte, n int) []byte {
	if n <= 0 {
		return data
	}
	at := len(data)
	for range n + 1 {
		i := bytes.LastIndexByte(data[:at], '\n')
		if i < 0 {
			return data
		}
		at = i
	}
	return data[at+1:]
}

// parseLine splits a line of a log file.
func parseLine(line []byte) (logLine, bool) {
	parts := bytes.SplitN(line, []byte(" "), 4)
	if len(parts) != 4 {
		return logLine{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(parts[0]))
	if err != nil {
		return logLine{}, false
	}
	return logLine{time: at, stamp: parts[0], partial: string(parts[2]) == "P", text: parts[3]}, true
}

// logWriter turns lines of a log file into what the container wrote.
type logWriter struct {
	w          io.Writer
	timestamps bool
	since      time.Time
	limit      int // bytes that are left, if limited
	written    int
	lineStart  bool
}

func (o *logWriter) all(data []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 4*logLineSize)
	for lines.Scan() {
		line, ok := parseLine(lines.Bytes())
		if !ok || line.time.Before(o.since) {
			continue
		}
		if err := o.line(line); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (o *logWriter) line(line logLine) error {
	var text []byte
	if o.timestamps && o.lineStart {
		text = append(append(text, line.stamp...), ' ')
	}
	text = append(text, line.text...)
	if o.lineStart = !line.partial; o.lineStart {
		text = append(text, '\n')
	}
	if o.limit > 0 && o.written+len(text) > o.limit {
		text = text[:o.limit-o.written]
	}
	n, err := o.w.Write(text)
	o.written += n
	if err == nil && o.limit > 0 && o.written >= o.limit {
		return errEnough
	}
	return err
}

// lastLines returns at most lines and size bytes from the end of the log:
// the termination message of a container that wrote none.
func (l *containerLog) lastLines(ctx context.Context, lines, size int) (string, error) {
	var buf bytes.Buffer
	if err := l.stream(ctx, &buf, api.ContainerLogOpts{Tail: lines}); err != nil {
		return "", err
	}
	data := buf.Bytes()
	if len(data) > size {
		data = data[len(data)-size:]
	}
	return string(data), nil
}
