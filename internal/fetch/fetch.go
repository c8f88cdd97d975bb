// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// Reasons of the errors of this package. They are stable.
const (
	// ReasonNoRelease means that there is no release where one was looked for.
	ReasonNoRelease = "NoRelease"
	// ReasonNoFile means that a path leads to nothing that can be read.
	ReasonNoFile = "NoFile"
	// ReasonUnreachable means that an address gives no content.
	ReasonUnreachable = "SourceUnreachable"
	// ReasonTooLarge means that content is over the size limit.
	ReasonTooLarge = "SourceTooLarge"
	// ReasonDigestMismatch means that content is not what the release names.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonBadArtifact means that an OCI artifact does not hold YAML files.
	ReasonBadArtifact = "BadArtifact"
)

const (
	defaultTimeout  = time.Minute
	defaultMaxBytes = 64 << 20
	defaultParallel = 4
	maxRedirects    = 5
)

// Fetcher gets the content of sources. The zero value is ready for use.
type Fetcher struct {
	// HTTP makes the calls; nil stands for the standard transport.
	HTTP *http.Client
	// Keychain has the credentials for registries; nil stands for those that docker, podman and crane use.
	Keychain authn.Keychain
	// Timeout limits each source; 0 stands for a minute.
	Timeout time.Duration
	// MaxBytes limits the size of each source once unpacked; 0 stands for 64 MiB.
	MaxBytes int64
	// Parallel is how many sources are fetched at a time; 0 stands for 4.
	Parallel int
	// Offline allows only sources on this machine and in the cluster.
	Offline bool
	// Clock measures how long a busy server is waited for; nil stands for the real time.
	Clock clock.Clock
	// Releases finds releases in the cluster by name; nil means that there is no cluster to look in.
	Releases Releases
	// ConfigMaps finds ConfigMaps in the cluster; nil means that there is no cluster to look in.
	ConfigMaps ConfigMaps
}

// Releases finds releases in the cluster.
type Releases interface {
	// Release returns the Release with this name, or nil when there is none.
	Release(ctx context.Context, name string) (*v1alpha1.Release, error)
}

// Fetch returns the content of a source: one YAML stream whose digest is the one that the source wants, if it names one.
// base is where paths begin.
func (f *Fetcher) Fetch(ctx context.Context, base Base, src v1alpha1.Source) ([]byte, error) {
	switch {
	case src.Path != "":
		data, err := base.read(src.Path, f.maxBytes())
		if err != nil {
			return nil, err
		}
		return verified(src, data)
	case src.URL != "":
		data, err := f.download(ctx, src)
		if err != nil {
			return nil, err
		}
		return verified(src, data)
	case src.OCI != "":
		return f.pullStream(ctx, src)
	case src.ConfigMap != nil:
		return f.configMap(ctx, src)
	}
	return nil, problem.Usage(release.ReasonBadSource, "", "exactly one of path, url, oci, configMap and repository is wanted, none is given")
}

// verified returns the bytes of a source if they are those that the source wants.
func verified(src v1alpha1.Source, data []byte) ([]byte, error) {
	if err := checkDigest(src, release.Digest(data)); err != nil {
		return nil, err
	}
	return data, nil
}

// checkDigest compares the digest of what was fetched with the one that the source wants.
func checkDigest(src v1alpha1.Source, got string) error {
	want := release.WantedDigest(src)
	if want == "" || want == got {
		return nil
	}
	return problem.Blocked(ReasonDigestMismatch, "%s is not what the release names: its digest is %s, want %s", release.Describe(src), got, want).
		WithRemedy("find out who changed it; if the change is meant, write the new digest into the release")
}

// interrupted tells whether the caller, not our own time limit, ended the work.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

func (f *Fetcher) timeout() time.Duration {
	if f.Timeout > 0 {
		return f.Timeout
	}
	return defaultTimeout
}

func (f *Fetcher) maxBytes() int64 {
	if f.MaxBytes > 0 {
		return f.MaxBytes
	}
	return defaultMaxBytes
}

func (f *Fetcher) parallel() int {
	if f.Parallel > 0 {
		return f.Parallel
	}
	return defaultParallel
}
