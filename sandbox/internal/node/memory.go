// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
)

// memoryInterval is how often memory is looked at.
const memoryInterval = 500 * time.Millisecond

// memoryWatch enforces memory limits where no control group can: it looks at
// what containers with a limit hold, and tells who holds too much.
type memoryWatch struct {
	clock clock.WithTicker
	log   *slog.Logger
	// held returns the bytes of a container by its first process.
	held func(pid int) (int64, error)

	mu      sync.Mutex
	next    int
	watched map[int]watchedContainer
	wake    chan struct{} // holds a token when there is something to watch
}

type watchedContainer struct {
	pid   int
	limit int64
	over  func()
}

func newMemoryWatch(clk clock.WithTicker, log *slog.Logger) *memoryWatch {
	return &memoryWatch{
		clock: clk, log: log, held: container.Memory,
		watched: map[int]watchedContainer{}, wake: make(chan struct{}, 1),
	}
}

// watch calls over once when the container holds more than limit. The returned
// function ends the watch.
func (m *memoryWatch) watch(pid int, limit int64, over func()) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	key := m.next
	m.watched[key] = watchedContainer{pid, limit, over}
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watched, key)
	}
}

// run looks until ctx ends; it sleeps while nothing has a limit.
func (m *memoryWatch) run(ctx context.Context) {
	for {
		if !m.look() {
			select {
			case <-m.wake:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-m.clock.After(memoryInterval):
		case <-ctx.Done():
			return
		}
	}
}

// look checks every container once; false means that there is none.
func (m *memoryWatch) look() bool {
	m.mu.Lock()
	list := make(map[int]watchedContainer, len(m.watched))
	maps.Copy(list, m.watched)
	m.mu.Unlock()
	for key, w := range list {
		held, err := m.held(w.pid)
		if err != nil {
			m.log.Error("read memory use of container", "pid", w.pid, "err", err)
			continue
		}
		if held <= w.limit {
			continue
		}
		m.mu.Lock()
		_, still := m.watched[key]
		delete(m.watched, key)
		m.mu.Unlock()
		// Forgotten in the meantime: the pid may be another process by now.
		if still {
			w.over()
		}
	}
	return len(list) > 0
}
