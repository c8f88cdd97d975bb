// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

const (
	// firstWait and longestWait bound the pauses between attempts of a read whose cache is being filled.
	firstWait, longestWait = 10 * time.Millisecond, 320 * time.Millisecond
	// refusalSize is how much of a refusal is read: a Status of a few hundred bytes.
	refusalSize = 4 << 10
)

// patient repeats reads of a kind whose CRD was changed a moment ago. The API server gives such a kind a new cache, and
// refuses to read from it until it is filled, which takes milliseconds; but the shortest time that it can ask a client to
// wait is a second, and client-go would. Any other refusal for a while, such as that of priority and fairness, is left
// to client-go.
type patient struct {
	next  http.RoundTripper
	clock clock.Clock
}

// RoundTrip makes the request, again if the cache behind it is not filled yet.
func (p patient) RoundTrip(req *http.Request) (*http.Response, error) {
	for wait := firstWait; ; wait *= 2 {
		resp, err := p.next.RoundTrip(req)
		if err != nil || req.Method != http.MethodGet || resp.StatusCode != http.StatusTooManyRequests || wait > longestWait {
			return resp, err
		}
		filling, err := cacheIsFilling(resp)
		if err != nil || !filling {
			return resp, err
		}
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-p.clock.After(wait):
		}
	}
}

// cacheIsFilling tells whether a refusal is for the cache's sake, and closes it then. Any other one can still be read.
func cacheIsFilling(resp *http.Response) (bool, error) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, refusalSize))
	if err != nil {
		return false, errors.Join(err, resp.Body.Close())
	}
	// The words of apiserver's cacher; there is no reason or code of its own for it. Protobuf and JSON both hold them.
	if bytes.Contains(head, []byte("storage is (re)initializing")) {
		return true, resp.Body.Close()
	}
	resp.Body = unread{Reader: io.MultiReader(bytes.NewReader(head), resp.Body), Closer: resp.Body}
	return false, nil
}

// unread is a body of which a part was read and put back.
type unread struct {
	io.Reader
	io.Closer
}
