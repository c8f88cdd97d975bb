// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import "sync"

// each calls do for 0 to n-1 at once, waits for all, and returns the first error in their order. Components are few; what they
// hold is large, and takes longer to pack than to send.
func each(n int, do func(int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
