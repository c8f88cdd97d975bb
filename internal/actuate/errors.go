// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/internal/world"
)

var (
	// ErrConflict means that somebody else changed the object in between: observe again, then decide again.
	ErrConflict = errors.New("the object was changed by somebody else in between")
	// ErrRefused means that the API server or an admission plugin says no to this very change. Trying again with the same
	// content does not help.
	ErrRefused = errors.New("refused")
	// ErrRetry means that the change did not happen for a reason that passes: overload, time-out, a webhook or a
	// connection that is down, a kind whose CRD was created a moment ago.
	ErrRetry = errors.New("not possible right now")
)

// Error is a change that was not made.
type Error struct {
	// Verb is "apply", "patch" or "delete".
	Verb string
	// Ref is the object.
	Ref world.Ref
	// Kind is ErrConflict, ErrRefused or ErrRetry.
	Kind error
	// After is how long the server asks to wait; zero if it doesn't say.
	After time.Duration
	// Err is the API server's answer.
	Err error
}

// Error returns what was tried and the server's words.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.Verb, e.Ref, e.Kind, e.Err)
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// Retryable tells whether the same change may succeed later, as it is or after a new look at the world.
func Retryable(err error) bool {
	return errors.Is(err, ErrRetry) || errors.Is(err, ErrConflict)
}

// classify wraps an API error in an Error. A cancelled context is not the cluster's fault and stays what it is.
func classify(verb string, ref world.Ref, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", verb, ref, err)
	}
	out := &Error{Verb: verb, Ref: ref, Kind: kindOf(err), Err: err}
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		out.After = time.Duration(s) * time.Second
	}
	return out
}

func kindOf(err error) error {
	switch {
	case apimeta.IsNoMatchError(err):
		return ErrRetry
	case apierrors.IsConflict(err):
		return ErrConflict
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ErrRetry
	case isSchemaError(err), errors.Is(err, ErrRefused):
		return ErrRefused
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ErrRetry // no answer at all: connection or time-out
	}
	switch code := status.Status().Code; {
	case code == 404, code == 408, code == 429, code == 409, code >= 500, code == 0:
		// Not found: the CRD or the namespace is on its way, or was removed; the next look at the world tells.
		return ErrRetry
	default:
		return ErrRefused
	}
}

// isSchemaError tells whether the object does not fit the kind's schema. The API server reports that as an internal
// error (500), but it says so each time.
func isSchemaError(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object")
}

// Immutable tells whether a change was refused because a field can't be changed in place: the object has to be replaced.
// The API server has no reason code for it, only words.
func Immutable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		return false
	}
	s := status.Status()
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return saysImmutable(s.Message)
	}
	// Only if that is all: an object that is invalid anyhow is not helped by making it anew.
	for _, c := range s.Details.Causes {
		if !saysImmutable(c.Message) {
			return false
		}
	}
	return true
}

func saysImmutable(message string) bool {
	for _, words := range []string{"immutable", "may not change once set", "cannot change roleRef", "updates to statefulset spec"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}
