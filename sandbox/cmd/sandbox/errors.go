// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
)

// errUsage marks a command line that makes no sense.
var errUsage = errors.New("usage")

// exitStatusError carries the exit code of a program that was run on the user's behalf and has said itself what was wrong.
type exitStatusError int

func (e exitStatusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// hintError is an error with what to do about it.
type hintError struct {
	err  error
	next string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// hint adds the next step to an error.
func hint(err error, next string, args ...any) error {
	return &hintError{err: err, next: fmt.Sprintf(next, args...)}
}

// usageError is a wrong command line.
type usageError struct{ err error }

func (e usageError) Error() string        { return e.err.Error() }
func (e usageError) Unwrap() error        { return e.err }
func (e usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
