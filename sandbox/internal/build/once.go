// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Artifact is something that is made from a set of binaries and kept beside it in the cache.
type Artifact struct {
	// Kind is the cache's subdirectory, as "bundle". "bin", "locks" and "tmp" are taken.
	Kind string
	// Name and Version are for people: they are in events and in the directory's name.
	Name    string
	Version string
	// Key must change with everything that goes in.
	Key string
}

// Once returns the directory of an artifact. The first to ask makes it, with fill, which gets an empty directory to fill; anyone
// else who asks in the meantime waits. When fill fails nothing is kept and the next to ask tries again.
func (b *Builder) Once(ctx context.Context, a Artifact, fill func(dir string) error) (string, error) {
	p := b.tracker(a.Name, a.Version)
	dir, err := b.once(ctx, a.Kind, a.Name+"-"+a.Version+"-"+a.Key, p, func(_, out string) error {
		p.report(StagePacking, "", 0, 0)
		return fill(out)
	})
	return dir, wrap(fmt.Sprintf("make %s of %s %s", a.Kind, a.Name, a.Version), err)
}

// once makes a directory of the cache unless it is there. It is made under another name and renamed when complete, so that half
// of one is never seen. The function gets a scratch directory and, in it, the directory that will be kept.
func (b *Builder) once(ctx context.Context, kind, name string, p *tracker, fill func(work, out string) error) (string, error) {
	dir := filepath.Join(b.CacheDir, kind, name)
	if found, err := exists(dir); err != nil || found {
		p.report(StageCached, "", 0, 0)
		return dir, err
	}
	unlock, err := b.lock(ctx, kind+"-"+name, p)
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	defer unlock()
	// Another process may have made it while this one waited.
	if found, err := exists(dir); err != nil || found {
		p.report(StageCached, "", 0, 0)
		return dir, err
	}
	if err := b.fill(kind, name, dir, fill); err != nil {
		return "", err
	}
	p.report(StageDone, "", 0, 0)
	return dir, nil
}

func (b *Builder) fill(kind, name, dir string, fill func(work, out string) error) error {
	// The name is fixed and the lock is held: what is found here was left by a process that was killed.
	work := filepath.Join(b.CacheDir, "tmp", kind+"-"+name)
	if err := removeAll(work); err != nil {
		return err
	}
	defer func() { _ = removeAll(work) }() // a leftover is removed by the next to come
	out := filepath.Join(work, "out")
	for _, d := range []string{out, filepath.Dir(dir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := fill(work, out); err != nil {
		return err
	}
	return os.Rename(out, dir)
}

// Source returns the directory of a module in the module cache, fetching it when needed. It is read-only.
func (b *Builder) Source(ctx context.Context, path, version string) (string, error) {
	tool, err := b.findGo(ctx)
	if err != nil {
		return "", err
	}
	return tool.download(ctx, moduleVersion{path, version})
}
