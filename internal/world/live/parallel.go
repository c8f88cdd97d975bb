// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"sync"
)

// forEach calls do for 0 to n-1, at most limit at a time, waits for all, and returns all errors.
func forEach(n, limit int, do func(int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	wg.Wait()
	return first(errs)
}

// together calls all functions at once and waits for them.
func together(do ...func() error) error {
	return forEach(len(do), len(do), func(i int) error { return do[i]() })
}

// first returns the first error, one that asking again does not help before one that it does: the worst has to be told.
func first(errs []error) error {
	var retryable error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if _, ok := errors.AsType[*UnavailableError](err); !ok {
			return err
		}
		if retryable == nil {
			retryable = err
		}
	}
	return retryable
}

// onceMap computes a value once for each key, whoever asks first. Its zero value is ready.
type onceMap[V any] struct {
	mu sync.Mutex
	m  map[string]func() V
}

func (o *onceMap[V]) get(key string, compute func() V) V {
	o.mu.Lock()
	if o.m == nil {
		o.m = map[string]func() V{}
	}
	f, found := o.m[key]
	if !found {
		f = sync.OnceValue(compute)
		o.m[key] = f
	}
	o.mu.Unlock()
	return f()
}
