// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var artifact = Artifact{Kind: "bundle", Name: "thing", Version: "v1", Key: "abc"}

func TestTwoAtOnceMakeAnArtifactOnce(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	waiting := make(chan struct{}, 100)
	// Two builders are as good as two processes: the lock is on a file each opens for itself.
	first := &Builder{CacheDir: cache, Clock: fake}
	second := &Builder{CacheDir: cache, Clock: fake, Progress: func(e Event) {
		if e.Stage == StageWaiting {
			waiting <- struct{}{}
		}
	}}
	entered, release := make(chan struct{}), make(chan struct{})
	results := make(chan error, 2)
	go func() {
		_, err := first.Once(t.Context(), artifact, func(dir string) error {
			close(entered)
			<-release
			return os.WriteFile(filepath.Join(dir, "by"), []byte("first"), 0o644)
		})
		results <- err
	}()
	<-entered
	go func() {
		_, err := second.Once(t.Context(), artifact, func(string) error { return errors.New("made a second time") })
		results <- err
	}()
	<-waiting
	if _, err := os.Stat(filepath.Join(cache, "bundle", "thing-v1-abc")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished artifact can be seen: %v", err)
	}
	close(release)
	if err := <-results; err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		select {
		case err := <-results:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
			fake.Step(lockPoll) // the second asks for the lock again
		}
	}
	got, err := os.ReadFile(filepath.Join(cache, "bundle", "thing-v1-abc", "by"))
	if err != nil || string(got) != "first" {
		t.Errorf("artifact holds %q, %v", got, err)
	}
}

func TestWaitingForALockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.Once(t.Context(), artifact, func(string) error {
		other := &Builder{CacheDir: b.CacheDir, Clock: b.Clock, Progress: func(Event) { cancel() }}
		_, err := other.Once(ctx, artifact, func(string) error { return nil })
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestAFailedArtifactIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}}
	broken := errors.New("disk full")
	_, err := b.Once(t.Context(), artifact, func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v, want the cause", err)
	}
	dir, err := b.Once(t.Context(), artifact, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "whole" {
		t.Errorf("artifact holds %v, %v; want whole alone", entries, err)
	}
}

func TestWhatAKilledProcessLeftIsCleanedAway(t *testing.T) {
	t.Parallel()
	b := &Builder{CacheDir: t.TempDir(), Clock: clock.RealClock{}}
	left := filepath.Join(b.CacheDir, "tmp", "bundle-thing-v1-abc", "out")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "half"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// As copies of the module cache are.
	if err := os.Chmod(left, 0o555); err != nil {
		t.Fatal(err)
	}
	dir, err := b.Once(t.Context(), artifact, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("artifact holds %v, %v; want nothing", entries, err)
	}
}
