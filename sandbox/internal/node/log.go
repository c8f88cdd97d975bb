// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	logRotateSize = 10 << 20
	logLineSize   = 16 << 10
	// logTimeFormat has a fixed width, as in the logs of container engines.
	logTimeFormat = "2006-01-02T15:04:05.000000000Z07:00"
)

// containerLog is the output of one run of a container, in the form engines use:
// time, stream, F for a full line or P for a part, text. When it gets long the
// first half is dropped.
type containerLog struct {
	path  string
	clock clock.Clock

	mu         sync.Mutex
	file       *os.File
	size       int64
	generation int           // how often it was rotated
	changed    chan struct{} // closed and replaced at each line
	closed     bool
}

func createLog(path string, clk clock.Clock) (*containerLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the sandbox's user reads it
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	return &containerLog{path: path, clock: clk, file: file, changed: make(chan struct{})}, nil
}

// older is where the lines before the last rotation are.
func (l *containerLog) older() string { return l.path + ".1" }

// copyFrom writes lines until r ends.
func (l *containerLog) copyFrom(r io.Reader, stream string) error {
	lines := bufio.NewReaderSize(r, logLineSize)
	for {
		line, more, err := lines.ReadLine()
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s of container: %w", stream, err)
		}
		tag := "F"
		if more {
			tag = "P"
		}
		if err := l.write(stream, tag, line); err != nil {
			return err
		}
	}
}

func (l *containerLog) write(stream, tag string, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.size > logRotateSize {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := fmt.Fprintf(l.file, "%s %s %s %s\n", l.clock.Now().UTC().Format(logTimeFormat), stream, tag, line)
	l.size += int64(n)
	l.wake()
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}

func (l *containerLog) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *containerLog) rotate() error {
	if err := os.Rename(l.path, l.older()); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	file, err := os.Create(l.path)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	err = l.file.Close()
	l.file, l.size = file, 0
	l.generation++
	return err
}

// close ends the log; it stays readable.
func (l *containerLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.wake()
	return l.file.Close()
}

// state is what a follower needs: a channel that closes when it is out of date.
func (l *containerLog) state() (generation int, closed bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation, l.closed, l.changed
}

// remove deletes the files.
func (l *containerLog) remove() error {
	err := os.Remove(l.path)
	if olderErr := os.Remove(l.older()); !errors.Is(olderErr, os.ErrNotExist) {
		err = errors.Join(err, olderErr)
	}
	return err
}

// logLine is a line read back.
type logLine struct {
	time    time.Time
	partial bool
	text    []byte
	stamp   []byte
}
