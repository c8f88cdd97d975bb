// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

// script answers each request with the next of its refusals, then with success.
type script struct {
	refusals []string
	asked    int
}

func (s *script) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked++
	if s.asked > len(s.refusals) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("list"))}, nil
	}
	return &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader(s.refusals[s.asked-1]))}, nil
}

func TestPatientRepeatsOnlyReadsWhoseCacheIsFilled(t *testing.T) {
	t.Parallel()
	const filling, busy = `{"message":"storage is (re)initializing"}`, `{"message":"too many requests"}`
	for name, tc := range map[string]struct {
		method    string
		refusals  []string
		wantBody  string
		wantAsked int
	}{
		"the cache is filled at the second attempt": {method: http.MethodGet, refusals: []string{filling}, wantBody: "list", wantAsked: 2},
		"another refusal is passed on whole":        {method: http.MethodGet, refusals: []string{busy}, wantBody: busy, wantAsked: 1},
		"a change is never repeated":                {method: http.MethodPatch, refusals: []string{filling}, wantBody: filling, wantAsked: 1},
		"a cache that is never filled is passed on": {method: http.MethodGet, refusals: []string{filling, filling, filling, filling, filling, filling, filling}, wantBody: filling, wantAsked: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{refusals: tc.refusals}
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://localhost/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := patient{next: s, clock: clock.RealClock{}}.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if string(body) != tc.wantBody || s.asked != tc.wantAsked {
				t.Errorf("got %q after %d requests, want %q after %d", body, s.asked, tc.wantBody, tc.wantAsked)
			}
		})
	}
}
