// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import "time"

// Back-off as the kubelet's, before Config.BackoffScale.
const (
	backoffFirst = 10 * time.Second
	backoffMax   = 5 * time.Minute
	// backoffForget is how long a container must run to start again at first.
	backoffForget = 10 * time.Minute
)

// backoff counts the failures of one container. The first restart is immediate,
// each later one waits twice as long.
type backoff struct {
	scale float64
	delay time.Duration // of the failure before, unscaled; 0 before any
	armed bool
}

// restart returns how long to wait after a container that ran for ran.
func (b *backoff) restart(ran time.Duration) time.Duration {
	if ran >= b.scaled(backoffForget) {
		b.delay, b.armed = 0, false
	}
	if !b.armed {
		b.armed = true
		return 0
	}
	return b.next()
}

// next returns the wait after one more failure.
func (b *backoff) next() time.Duration {
	switch {
	case b.delay == 0:
		b.delay = backoffFirst
	case b.delay < backoffMax:
		b.delay = min(2*b.delay, backoffMax)
	}
	return b.scaled(b.delay)
}

// reset forgets all failures.
func (b *backoff) reset() { b.delay, b.armed = 0, false }

func (b *backoff) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.scale)
}
