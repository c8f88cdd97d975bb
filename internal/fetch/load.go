// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/version"
)

// ReleaseFile is the name of the release in a directory or an artifact.
const ReleaseFile = "release.yaml"

// found is a release and where its files are.
type found struct {
	release *v1alpha1.Release
	where   *release.Positions
	base    Base
}

// Load brings a whole release: it finds it, judges it, fetches and checks every component and renders it. ref is a
// directory with a release.yaml, a directory of such directories named by version, a release file, an oci:// reference to an
// artifact of such a directory, or the name of a Release in the cluster. The result is everything or an error.
func (f *Fetcher) Load(ctx context.Context, ref string) (*release.Bundle, error) {
	if versions := shelves(ref); len(versions) > 0 {
		return f.loadNewest(ctx, ref, versions)
	}
	from, err := f.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return f.load(ctx, from)
}

// load judges a release that was found and makes it whole.
func (f *Fetcher) load(ctx context.Context, from found) (*release.Bundle, error) {
	if err := release.Validate(from.release, from.where); err != nil {
		return nil, err
	}
	if err := f.offline(from); err != nil {
		return nil, err
	}
	skipped, err := f.resolve(from)
	if err != nil {
		return nil, err
	}
	components := from.release.Spec.Components
	rendered := make([]*release.Rendered, len(components))
	failed := make([]error, len(components))
	slots := make(chan struct{}, f.parallel())
	var all sync.WaitGroup
	for i, c := range components {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rendered[i], failed[i] = f.component(ctx, from, i, c)
		})
	}
	all.Wait()
	if err := first(failed); err != nil {
		return nil, err
	}
	bundle, err := release.NewBundle(from.release, rendered)
	if err != nil {
		return nil, err
	}
	bundle.Skipped = skipped
	return bundle, nil
}

// shelves lists the versions in a directory of releases, newest first; none if it is a release itself or no directory.
func shelves(ref string) []version.Version {
	info, err := os.Stat(ref)
	if err != nil || !info.IsDir() {
		return nil
	}
	if _, err := os.Stat(filepath.Join(ref, ReleaseFile)); err == nil {
		return nil
	}
	versions, err := Dir(ref).versions(".")
	if err != nil {
		return nil // find says what is wrong with it
	}
	return versions
}

// loadNewest loads the newest stable release of a directory that is there whole.
func (f *Fetcher) loadNewest(ctx context.Context, dir string, versions []version.Version) (*release.Bundle, error) {
	var passed []release.Skipped
	for _, v := range versions {
		why := preRelease
		if v.PreRelease() == "" {
			from, err := f.findFile(filepath.Join(dir, v.String()), ReleaseFile)
			var bundle *release.Bundle
			if err == nil {
				bundle, err = f.load(ctx, from)
			}
			if err == nil {
				for i := range passed {
					passed[i].Taken = v.String()
				}
				bundle.Skipped = append(passed, bundle.Skipped...)
				return bundle, nil
			}
			if why, err = passable(err); err != nil {
				return nil, err
			}
		}
		passed = append(passed, release.Skipped{Version: v.String(), Reason: why})
	}
	return nil, problem.Blocked(release.ReasonNoVersion, "%s has no release that can be used: %s was skipped, %s", dir, passed[0].Version, passed[0].Reason).
		WithRemedy("name one by its directory, such as %s", filepath.Join(dir, passed[0].Version))
}

// component fetches and renders one component.
func (f *Fetcher) component(ctx context.Context, from found, index int, c v1alpha1.Component) (*release.Rendered, error) {
	at := release.ComponentPath(index)
	var raw, metadata []byte
	var err error
	if c.Source.Repository != "" {
		raw, metadata, err = f.stocked(from.base, c)
	} else {
		raw, err = f.Fetch(ctx, from.base, keyed(c.Source, keyComponents))
	}
	if err != nil {
		return nil, ofComponent(err, c.Name, from.where.Where(at+".source"))
	}
	if c.Metadata != nil {
		if metadata, err = f.Fetch(ctx, from.base, keyed(*c.Metadata, keyMetadata)); err != nil {
			return nil, ofComponent(err, c.Name, from.where.Where(at+".metadata"))
		}
	}
	r, err := release.Render(c, raw, metadata)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ofComponent adds to an error which component it is about and where the release says so.
func ofComponent(err error, component, where string) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return fmt.Errorf("component %q: %w", component, err)
	}
	named := *p
	named.Message = fmt.Sprintf("component %q: %s", component, p.Message)
	named.Where = where
	return &named
}

// first returns the error of the first component that has one, and counts the others. All are waited for, so the answer
// does not depend on which network call fails first.
func first(failed []error) error {
	var result error
	more := 0
	for _, err := range failed {
		switch {
		case err == nil:
		case result == nil:
			result = err
		default:
			more++
		}
	}
	p, ok := errors.AsType[*problem.Error](result)
	if !ok || more == 0 {
		return result
	}
	counted := *p
	counted.Message = fmt.Sprintf("%s (and %d more components can't be loaded)", p.Message, more)
	if more == 1 {
		counted.Message = p.Message + " (and 1 more component can't be loaded)"
	}
	return &counted
}

// find reads the release itself.
func (f *Fetcher) find(ctx context.Context, ref string) (found, error) {
	switch {
	case ref == "":
		return found{}, problem.Usage(ReasonNoRelease, "", "no release is named").WithRemedy("give a directory, a file, an oci:// reference or the name of a Release")
	case strings.HasPrefix(ref, release.OCIScheme):
		return f.findArtifact(ctx, ref)
	case strings.Contains(ref, "://"):
		return found{}, problem.Usage(ReasonNoRelease, "", "a release can't be read from %q", ref).
			WithRemedy("give a directory, a file, an oci:// reference or the name of a Release")
	}
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.findInCluster(ctx, ref)
	case err != nil:
		return found{}, problem.Usage(ReasonNoRelease, "", "%s can't be read: %v", ref, cause(err)).WithCause(err)
	case info.IsDir():
		return f.findFile(ref, ReleaseFile)
	}
	return f.findFile(filepath.Dir(ref), filepath.Base(ref))
}

// findFile reads a release file in a directory.
func (f *Fetcher) findFile(dir, name string) (found, error) {
	file := filepath.Join(dir, name)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found{}, problem.Usage(ReasonNoRelease, "", "directory %s has no %s", dir, name).
			WithRemedy("give a directory with a %s, or the release file itself", ReleaseFile)
	case err != nil:
		return found{}, problem.Usage(ReasonNoRelease, "", "%s can't be read: %v", file, cause(err)).WithCause(err)
	case !info.Mode().IsRegular():
		return found{}, problem.Usage(ReasonNoRelease, "", "%s is not a file", file)
	case info.Size() > f.maxBytes():
		return found{}, tooLarge(file, f.maxBytes())
	}
	data, err := os.ReadFile(file) //nolint:gosec // The operator names the file.
	if err != nil {
		return found{}, problem.Usage(ReasonNoRelease, "", "%s can't be read: %v", file, cause(err)).WithCause(err)
	}
	return decode(file, data, Dir(dir))
}

// findArtifact pulls a release with the files that it names by path.
func (f *Fetcher) findArtifact(ctx context.Context, ref string) (found, error) {
	if f.Offline {
		return found{}, notLocal(ref)
	}
	files, err := f.pull(ctx, v1alpha1.Source{OCI: ref})
	if err != nil {
		return found{}, err
	}
	data, ok := files[ReleaseFile]
	if !ok {
		return found{}, problem.Usage(ReasonNoRelease, "", "%s has no %s", ref, ReleaseFile)
	}
	return decode(ref+"#"+ReleaseFile, data, memory(ref, files))
}

func decode(name string, data []byte, base Base) (found, error) {
	r, where, err := release.Decode(name, data)
	if err != nil {
		return found{}, err
	}
	return found{release: r, where: where, base: base}, nil
}

// findInCluster asks for a Release by name.
func (f *Fetcher) findInCluster(ctx context.Context, ref string) (found, error) {
	if f.Releases == nil || len(validation.IsDNS1123Subdomain(ref)) > 0 {
		return found{}, problem.Usage(ReasonNoRelease, "", "there is no release %s: no such directory or file", ref)
	}
	r, err := f.Releases.Release(ctx, ref)
	if err != nil {
		return found{}, fmt.Errorf("look for release %q in the cluster: %w", ref, err)
	}
	if r == nil {
		return found{}, problem.Usage(ReasonNoRelease, "", "there is no release %s: no such directory or file, and no Release of this name in the cluster", ref)
	}
	return found{release: r}, nil
}
