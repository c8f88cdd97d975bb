// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// process is what /proc says of a process of a sandbox.
type process struct {
	pid, parent int
	// inside is the process ID in the innermost PID namespace that is the sandbox's or below.
	inside []int
}

// addProcesses fills in process IDs as the host sees them, and the memory of all processes together.
func (r *statusReport) addProcesses(ctx context.Context, c *supervisor.Client) error {
	self, err := c.HostPID(ctx)
	if err != nil {
		return err
	}
	all, err := descendants(self)
	if err != nil {
		return err
	}
	hostPID := map[int]int{}
	for _, p := range all {
		if p.parent == self || p.pid == self {
			// The second of the IDs is the one in the sandbox: it is one namespace below ours.
			hostPID[p.inside[min(1, len(p.inside)-1)]] = p.pid
		}
		r.MemoryBytes += memoryOf(p.pid)
	}
	r.Processes = len(all)
	for i := range r.Components {
		r.Components[i].HostPID = hostPID[r.Components[i].PID]
	}
	return nil
}

// descendants returns a process and all below it.
func descendants(root int) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	byParent := map[int][]process{}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue // ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		byParent[p.parent] = append(byParent[p.parent], p)
		if pid == root {
			out = append(out, p)
		}
	}
	for i := 0; i < len(out); i++ {
		out = append(out, byParent[out[i].pid]...)
	}
	return out, nil
}

func readProcess(pid int) (process, error) {
	p := process{pid: pid, inside: []int{pid}}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return p, fmt.Errorf("read process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "PPid":
			p.parent, err = strconv.Atoi(strings.TrimSpace(value))
		case "NSpid":
			p.inside, err = numbers(value)
		}
		if err != nil {
			return p, fmt.Errorf("read process %d: %w", pid, err)
		}
	}
	return p, nil
}

func numbers(s string) ([]int, error) {
	var out []int
	for f := range strings.FieldsSeq(s) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller says of what
		}
		out = append(out, n)
	}
	return out, nil
}

// memoryOf is the proportional set size of a process in bytes: memory that processes share is counted once in the sum. A process that has
// ended counts nothing.
func memoryOf(pid int) int64 {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kb * 1024
		}
	}
	return 0
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
