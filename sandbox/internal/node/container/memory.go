// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Memory returns how many bytes a container's processes hold that the kernel
// can't take back: anonymous and shared memory, not mapped files. A container
// that has ended holds none.
func Memory(pid int) (int64, error) {
	total, todo := int64(0), []int{pid}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		held, err := heldBy(next)
		if gone(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += held
		children, err := childrenOf(next)
		if err != nil && !gone(err) {
			return 0, err
		}
		todo = append(todo, children...)
	}
	return total, nil
}

// gone says that a process has ended while it was looked at.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

func heldBy(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory use: %w", err)
	}
	return parseHeld(data), nil
}

// parseHeld adds RssAnon and RssShmem, which are in kB.
func parseHeld(status []byte) int64 {
	var total int64
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) < 2 || (string(fields[0]) != "RssAnon:" && string(fields[0]) != "RssShmem:") {
			continue
		}
		kb, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err == nil { // the kernel writes numbers
			total += kb * 1024
		}
	}
	return total
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, fmt.Errorf("list threads: %w", err)
	}
	var children []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list children: %w", err)
		}
		for field := range bytes.FieldsSeq(data) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, fmt.Errorf("parse children: %w", err)
			}
			children = append(children, child)
		}
	}
	return children, nil
}
