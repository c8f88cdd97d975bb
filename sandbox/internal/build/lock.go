// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting process asks for the lock again.
const lockPoll = 250 * time.Millisecond

// lock takes the lock of one set, and waits for it as long as the context lives. The kernel drops the lock when its holder dies,
// so a killed build blocks nobody. The file itself stays: removing it would let two processes hold "the" lock on two inodes.
func (b *Builder) lock(ctx context.Context, name string, p *tracker) (unlock func(), err error) {
	dir := filepath.Join(b.CacheDir, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := b.waitForLock(ctx, f, p); err != nil {
		_ = f.Close()
		return nil, err
	}
	// Closing the only descriptor drops the lock.
	return func() { _ = f.Close() }, nil
}

func (b *Builder) waitForLock(ctx context.Context, f *os.File, p *tracker) error {
	ticker := b.Clock.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("flock %s: %w", f.Name(), err)
		}
		p.report(StageWaiting, f.Name(), 0, 0)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}
