// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoffDoublesUpToFiveMinutesAndForgets(t *testing.T) {
	t.Parallel()
	b := backoff{scale: 1}
	var got []time.Duration
	for range 8 {
		got = append(got, b.restart(time.Second))
	}
	got = append(got, b.restart(10*time.Minute), b.restart(time.Second))
	want := []time.Duration{0, 10e9, 20e9, 40e9, 80e9, 160e9, 300e9, 300e9, 0, 10e9}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestBackoffIsScaled(t *testing.T) {
	t.Parallel()
	b := backoff{scale: 0.01}
	if got := b.next(); got != 100*time.Millisecond {
		t.Errorf("first wait: %s", got)
	}
}
