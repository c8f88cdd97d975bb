// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// download returns what an http address answers.
func (f *Fetcher) download(parent context.Context, src v1alpha1.Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(parent, f.timeout())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, src.URL, http.NoBody)
	if err != nil {
		return nil, problem.Usage(release.ReasonBadSource, "", "%s is not an https or http address", release.Describe(src)).WithCause(err)
	}
	request.Header.Set("User-Agent", "capstan")
	response, refused, err := f.get(ctx, request)
	if err != nil {
		return nil, f.unreachable(parent, release.Describe(src), err)
	}
	if refused != "" {
		return nil, unreachable(release.Describe(src), refused, nil)
	}
	defer func() { _ = response.Body.Close() }() // Only reads were made.
	if response.StatusCode != http.StatusOK {
		return nil, unreachable(release.Describe(src), "it answers "+response.Status, nil)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, f.maxBytes()+1))
	if err != nil {
		return nil, f.unreachable(parent, release.Describe(src), err)
	}
	if int64(len(data)) > f.maxBytes() {
		return nil, tooLarge(release.Describe(src), f.maxBytes())
	}
	return data, nil
}

// client is the given client with a limit on redirects.
func (f *Fetcher) client() *http.Client {
	client := &http.Client{}
	if f.HTTP != nil {
		*client = *f.HTTP
	}
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return fmt.Errorf("it redirects from https to %s", next.URL.Redacted())
		}
		return nil
	}
	return client
}

// unreachable puts an error of the network in the user's words; an interrupt stays one.
func (f *Fetcher) unreachable(parent context.Context, what string, err error) error {
	if interrupted(parent) {
		return fmt.Errorf("fetch %s: %w", what, parent.Err())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return unreachable(what, fmt.Sprintf("no answer within %s", f.timeout()), err)
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return unreachable(what, registryAnswer(answer), err)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return unreachable(what, u.Err.Error(), err)
	}
	return unreachable(what, err.Error(), err)
}

func unreachable(what, why string, err error) error {
	return problem.Blocked(ReasonUnreachable, "%s can't be fetched: %s", what, why).WithCause(err).
		WithRemedy("check the address and the network, then run the command again")
}
