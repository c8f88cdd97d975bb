// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/version"
)

// metadataFile is the name of clusterctl's metadata in a repository.
const metadataFile = "metadata.yaml"

// preRelease is why a pre-release is passed over.
const preRelease = "it is a pre-release, which has to be asked for by its version"

// resolve fills in the versions that the release leaves open. A repository may hold what can't be used yet: pre-releases,
// and versions whose files are still to come. These are passed over with a word, not an error.
func (f *Fetcher) resolve(from found) ([]release.Skipped, error) {
	var skipped []release.Skipped
	for i := range from.release.Spec.Components {
		c := &from.release.Spec.Components[i]
		if c.Version != "" || c.Source.Repository == "" {
			continue
		}
		taken, passed, err := f.newest(from.base, *c)
		if err != nil {
			return nil, ofComponent(err, c.Name, from.where.Where(release.ComponentPath(i)+".source"))
		}
		c.Version = taken
		skipped = append(skipped, passed...)
	}
	return skipped, nil
}

// newest returns the newest stable version of a component that has all its files and knows itself, and the newer ones that
// were passed over.
func (f *Fetcher) newest(base Base, c v1alpha1.Component) (taken string, passed []release.Skipped, err error) {
	all, err := base.versions(shelf(c))
	if err != nil {
		return "", nil, err
	}
	for _, v := range all {
		c.Version = v.String()
		why, err := f.unusable(base, c, v)
		if err != nil {
			return "", nil, err
		}
		if why == "" {
			for i := range passed {
				passed[i].Taken = c.Version
			}
			return c.Version, passed, nil
		}
		passed = append(passed, release.Skipped{Component: c.Name, Version: c.Version, Reason: why})
	}
	p := problem.Blocked(release.ReasonNoVersion, "%s of %s has no version that can be used", shelf(c), base.name)
	if len(passed) > 0 {
		p.Message += fmt.Sprintf(": %s was skipped, %s", passed[0].Version, passed[0].Reason)
	}
	return "", nil, p.WithRemedy("put a version with manifests and %s there, or name a pre-release by its version", metadataFile)
}

// unusable says why a version can't be taken, "" if it can.
func (f *Fetcher) unusable(base Base, c v1alpha1.Component, v version.Version) (string, error) {
	if v.PreRelease() != "" {
		return preRelease, nil
	}
	_, metadata, err := f.stocked(base, c)
	if err == nil {
		err = release.JudgeMetadata(c, metadata)
	}
	return passable(err)
}

// passable turns an error that says that a version is not published whole into the reason for passing it over.
func passable(err error) (string, error) {
	p, ok := errors.AsType[*problem.Error](err)
	if ok && slices.Contains([]string{ReasonNoFile, ReasonNoRelease, release.ReasonBadMetadata}, p.Reason) {
		return p.Message, nil
	}
	return "", err
}

// stocked returns the manifests and the metadata of a component's version in its repository.
func (f *Fetcher) stocked(base Base, c v1alpha1.Component) (manifests, metadata []byte, err error) {
	dir := path.Join(shelf(c), c.Version)
	name, err := base.manifestsIn(dir)
	if err != nil {
		return nil, nil, err
	}
	if manifests, err = base.read(path.Join(dir, name), f.maxBytes()); err != nil {
		return nil, nil, err
	}
	metadata, err = base.read(path.Join(dir, metadataFile), f.maxBytes())
	return manifests, metadata, err
}

// shelf is the directory of a component in its repository.
func shelf(c v1alpha1.Component) string {
	return path.Join(c.Source.Repository, clusterctlv1.ManifestLabel(c.Provider.Name, clusterctlv1.ProviderType(c.Provider.Type)))
}

// versions lists the directories in dir whose names are versions, newest first.
func (b Base) versions(dir string) ([]version.Version, error) {
	entries, err := b.entries(dir)
	if err != nil {
		return nil, err
	}
	var out []version.Version
	for _, e := range entries {
		if v, err := version.Parse(e.name); err == nil && e.dir {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b version.Version) int { return b.Compare(a) })
	return out, nil
}

// manifestsIn returns the name of the file with a provider's manifests: clusterctl names it after the provider's type.
func (b Base) manifestsIn(dir string) (string, error) {
	entries, err := b.entries(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		if !e.dir && strings.HasSuffix(e.name, "components.yaml") {
			names = append(names, e.name)
		}
	}
	switch len(names) {
	case 0:
		return "", problem.Usage(ReasonNoFile, "", "there is no *components.yaml in %s of %s", dir, b.name)
	case 1:
		return names[0], nil
	}
	return "", problem.Usage(release.ReasonBadSource, "", "%s of %s has several *components.yaml: %s", dir, b.name, strings.Join(names, ", ")).
		WithRemedy("leave one there")
}

// entries lists a directory, sorted by name.
func (b Base) entries(dir string) ([]entry, error) {
	if b.open == nil {
		return nil, problem.Usage(release.ReasonBadSource, "", "repository %s is a path, but the release is not in a directory", dir).
			WithRemedy("name the release by its directory")
	}
	if path.IsAbs(dir) || !fs.ValidPath(path.Clean(dir)) {
		return nil, escapes(dir)
	}
	files, err := b.open()
	if err != nil {
		return nil, problem.Usage(ReasonNoFile, "", "the release directory %s can't be opened: %v", b.name, cause(err)).WithCause(err)
	}
	defer func() { _ = files.Close() }() // Only reads were made.
	out, err := files.entries(path.Clean(dir))
	if err != nil {
		return nil, b.unreadable(dir, err)
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, nil
}
