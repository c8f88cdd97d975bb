// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// imageTimeout bounds one request with all its redirects; imageRedirects how many may be followed, as many as the
	// provisioner's own client takes by default.
	imageTimeout   = 15 * time.Second
	imageRedirects = 10
	// checksumBytes is how much of a checksum file is read: the list of a whole download server fits.
	checksumBytes = 1 << 20
)

// imageTopic asks the servers of the image and of its checksum file, as a host will later.
func imageTopic() topic {
	return topic{name: world.TopicImage, begin: func(ctx context.Context, s *surveyor) (func(context.Context) error, error) {
		if s.ask.Image != nil {
			s.out.Image = probeImage(ctx, *s.ask.Image, imageTimeout)
		}
		return nil, nil
	}}
}

// probeImage asks for the head of the image and for the checksum file. What fails is in the result.
func probeImage(ctx context.Context, ask world.AskImage, timeout time.Duration) *world.ImageProbe {
	c := &http.Client{Timeout: timeout, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > imageRedirects {
			return fmt.Errorf("it redirects more than %d times", imageRedirects)
		}
		return nil
	}}
	defer c.CloseIdleConnections()
	p := &world.ImageProbe{}
	if world.IsHTTP(ask.URL) {
		p.Image, _ = request(ctx, c, http.MethodHead, ask.URL)
		if noHead(p.Image) {
			// Some servers and signed URLs know no HEAD: the beginning of the answer to GET says the same.
			p.Image, _ = request(ctx, c, http.MethodGet, ask.URL)
		}
	}
	if world.IsHTTP(ask.Checksum) {
		p.Checksum, p.ChecksumFile = request(ctx, c, http.MethodGet, ask.Checksum)
	}
	return p
}

func noHead(f *world.Fetched) bool {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusForbidden} {
		if f.Status == statusLine(status) {
			return true
		}
	}
	return false
}

func statusLine(code int) string { return fmt.Sprintf("%d %s", code, http.StatusText(code)) }

// request makes one request. Of a GET for a checksum file the beginning is returned; that of an image is read no further
// than to see that something is there.
func request(ctx context.Context, c *http.Client, method, address string) (*world.Fetched, string) {
	out := &world.Fetched{URL: address, Final: address, Length: -1}
	r, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		out.Failed = err.Error()
		return out, ""
	}
	r.Header.Set("User-Agent", "capstan")
	answer, err := c.Do(r)
	if err != nil {
		out.Failed = networkWords(err, c.Timeout)
		return out, ""
	}
	defer func() { _ = answer.Body.Close() }() // only read from
	out.Final, out.Status, out.Length = answer.Request.URL.Redacted(), statusLine(answer.StatusCode), answer.ContentLength
	out.OK = answer.StatusCode >= 200 && answer.StatusCode < 300
	if method == http.MethodHead || !out.OK {
		return out, ""
	}
	limit := min(checksumBytes, max(answer.ContentLength, 0))
	if answer.ContentLength < 0 {
		limit = checksumBytes
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err != nil {
		out.Failed = networkWords(err, c.Timeout)
	}
	if len(data) == 0 {
		out.Length = 0
	}
	return out, string(data)
}

// networkWords is why a request failed, without the method and the URL that Go puts in front.
func networkWords(err error, timeout time.Duration) string {
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return fmt.Sprintf("no answer within %s", timeout)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}
