// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"

	"k8s.io/utils/clock"
)

func TestAgeCountsEitherClock(t *testing.T) {
	t.Parallel()
	renewed := clock.RealClock{}.Now() // a reading of both clocks, which a fake has not
	if got := age(renewed.Add(7*time.Second), renewed); got != 7*time.Second {
		t.Errorf("age is %s, want 7s", got)
	}
	// A time without a monotonic reading is what is left to compare after a sleep; it must count as well.
	if got := age(renewed.Add(time.Minute).Round(0), renewed); got != time.Minute {
		t.Errorf("age is %s, want 1m", got)
	}
}
