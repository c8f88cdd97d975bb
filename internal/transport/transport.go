// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package transport repeats questions to an API server that got no answer. A question changes nothing, so asking again is
// safe; a change is never repeated here, because who makes it has to look first whether it was made.
package transport

import (
	"context"
	"net/http"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// pauses are how long is waited before each repetition: long enough for a load balancer to move on, short enough for
// somebody who mistyped an address.
func pauses() []time.Duration {
	return []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond}
}

// Wrap returns a function for rest.Config.Wrap.
func Wrap(c clock.Clock) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &asker{next: next, clock: c} }
}

type asker struct {
	next  http.RoundTripper
	clock clock.Clock
}

// RoundTrip makes a request, and repeats a question that was cut off, or that a proxy answered for the API server. An
// answer of the API server itself is an answer; of 500, which it also gives while etcd is away, it is asked for once more.
func (a *asker) RoundTrip(req *http.Request) (*http.Response, error) {
	if !question(req) {
		return a.next.RoundTrip(req)
	}
	for i, pause := range pauses() {
		resp, err := a.next.RoundTrip(req)
		if !worthAnother(resp, err, i) || req.Context().Err() != nil {
			return resp, err
		}
		if resp != nil {
			if err := resp.Body.Close(); err != nil {
				return nil, err
			}
		}
		select {
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		case <-a.clock.After(pause):
		}
	}
	return a.next.RoundTrip(req)
}

// question tells whether a request changes nothing and, having no body, can be sent twice. Watches and upgrades of the protocol live long,
// and have their own ways to begin anew.
func question(req *http.Request) bool {
	if req.Method != http.MethodGet || req.Body != nil && req.Body != http.NoBody {
		return false
	}
	return req.Header.Get("Upgrade") == "" && !slices.Contains([]string{"1", "true"}, req.URL.Query().Get("watch"))
}

func worthAnother(resp *http.Response, err error, attempt int) bool {
	if err != nil {
		return true
	}
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return resp.Header.Get("Retry-After") == "" // client-go waits as long as it was asked to
	case http.StatusInternalServerError:
		return attempt == 0
	}
	return false
}
