// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package problem holds the one error type that reaches a user: what is wrong, with which object, and what to do next.
// It neither prints nor decides an exit; it only says which exit is meant.
package problem

import (
	"errors"
	"fmt"
	"strings"
)

// Exit is a process exit code with a documented meaning.
type Exit int

// The exit codes of the command line (docs/cli.md).
const (
	// ExitDone means that what was asked for is done.
	ExitDone Exit = 0
	// ExitError is any fault without a better code.
	ExitError Exit = 1
	// ExitUsage means that the command or a file it was given is not well formed.
	ExitUsage Exit = 2
	// ExitBlocked means that nothing was changed because something forbids it.
	ExitBlocked Exit = 3
	// ExitStopped means that the run holds part-way and can be resumed.
	ExitStopped Exit = 4
	// ExitFailed means that the run holds part-way and a person has to decide.
	ExitFailed Exit = 5
	// ExitInterrupted means that a signal ended the command.
	ExitInterrupted Exit = 130
)

// Error is a fault in the user's words.
type Error struct {
	// Reason is stable and CamelCase, for scripts.
	Reason string `json:"reason"`
	// Object is what it is about: "Kind namespace/name", a file, or the command. Where nobody says, the command line does.
	Object string `json:"object,omitempty"`
	// Message is one sentence that names the object.
	Message string `json:"message"`
	// Remedy is the next step, something to type where possible.
	Remedy string `json:"remedy,omitempty"`
	// Where is a file with line, or a field path.
	Where string `json:"where,omitempty"`
	// Exit is the exit code meant by it.
	Exit Exit `json:"exit"`
	// Err is the cause, for developers.
	Err error `json:"-"`
}

// Error returns the message with its place and remedy, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Where != "" {
		b.WriteString(e.Where + ": ")
	}
	b.WriteString(e.Message)
	if e.Remedy != "" {
		b.WriteString(" (next: " + e.Remedy + ")")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage is a fault in what the user typed or in a file the user gave.
func Usage(reason, where, format string, args ...any) *Error {
	return &Error{Reason: reason, Where: where, Message: fmt.Sprintf(format, args...), Exit: ExitUsage}
}

// Blocked is a refusal before any change.
func Blocked(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Exit: ExitBlocked}
}

// WithRemedy returns e with the next step set.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	e.Remedy = fmt.Sprintf(format, args...)
	return e
}

// WithObject returns e with what it is about.
func (e *Error) WithObject(object string) *Error {
	e.Object = object
	return e
}

// WithCause returns e with its cause set.
func (e *Error) WithCause(err error) *Error {
	e.Err = err
	return e
}

// ExitOf returns the exit code that err means.
func ExitOf(err error) Exit {
	if err == nil {
		return ExitDone
	}
	if p, ok := errors.AsType[*Error](err); ok {
		return p.Exit
	}
	return ExitError
}
