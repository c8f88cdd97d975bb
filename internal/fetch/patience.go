// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"k8s.io/utils/clock"
)

const (
	// attempts is how often an address is tried that answers but can't serve just now.
	attempts = 4
	// patience is how long all waiting between the attempts may take: a person waits for the answer.
	patience = 30 * time.Second
	// pause is the first pause where the server does not say how long; each next one is twice as long.
	pause = 500 * time.Millisecond
)

// later tells whether an answer means that the same request may work soon, and when the server says so.
func later(r *http.Response, now time.Time) (wait time.Duration, named, again bool) {
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false, false
	}
	after := r.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true, true
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, at.Sub(now)), true, true
	}
	return 0, false, true
}

// get asks an address until it gives an answer that stands. Where the server wants more patience than there is, refused
// says so; the response is closed then.
func (f *Fetcher) get(ctx context.Context, request *http.Request) (response *http.Response, refused string, err error) {
	left, next := patience, pause
	for attempt := 1; ; attempt++ {
		response, err := f.client().Do(request)
		if err != nil {
			return nil, "", err
		}
		wait, named, again := later(response, f.clock().Now())
		if !again || attempt == attempts && !named {
			return response, "", nil
		}
		if !named {
			wait, next = next, 2*next
		}
		if attempt == attempts || wait > left {
			_ = response.Body.Close() // Nothing of it is of interest.
			return nil, tooBusy(response.Status, wait), nil
		}
		_ = response.Body.Close() // Nothing of it is of interest.
		left -= wait
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-f.clock().After(wait):
		}
	}
}

func (f *Fetcher) clock() clock.Clock {
	if f.Clock != nil {
		return f.Clock
	}
	return clock.RealClock{}
}
