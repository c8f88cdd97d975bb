// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/transport"
)

// script answers one request after the other: a status, or 0 for a connection that is cut.
type script struct {
	answers []int
	asked   int
}

func (s *script) RoundTrip(*http.Request) (*http.Response, error) {
	code := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	if code == 0 {
		return nil, io.EOF
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestQuestionsAreRepeatedAndChangesAreNot(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Asked, Code int
		Cut         bool
	}
	tests := map[string]struct {
		method, path string
		answers      []int
		want         outcome
	}{
		"an answer is taken":                        {"GET", "/api", []int{200}, outcome{Asked: 1, Code: 200}},
		"a question that was cut is asked again":    {"GET", "/api", []int{0, 0, 200}, outcome{Asked: 3, Code: 200}},
		"a question that stays cut is given up":     {"GET", "/api", []int{0}, outcome{Asked: 4, Cut: true}},
		"a proxy's answer is not the API server's":  {"GET", "/api", []int{502, 503, 200}, outcome{Asked: 3, Code: 200}},
		"an internal error may pass":                {"GET", "/api", []int{500, 200}, outcome{Asked: 2, Code: 200}},
		"an internal error that stays is an answer": {"GET", "/api", []int{500, 500}, outcome{Asked: 2, Code: 500}},
		"a refusal is an answer":                    {"GET", "/api", []int{403}, outcome{Asked: 1, Code: 403}},
		"a change is sent once":                     {"PATCH", "/api", []int{0}, outcome{Asked: 1, Cut: true}},
		"a creation is sent once":                   {"POST", "/api", []int{503}, outcome{Asked: 1, Code: 503}},
		"a watch is begun once":                     {"GET", "/api?watch=true", []int{0}, outcome{Asked: 1, Cut: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: test.answers}
				req, err := http.NewRequestWithContext(t.Context(), test.method, "http://127.0.0.1"+test.path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.Wrap(clock.RealClock{})(s).RoundTrip(req)
				got := outcome{Asked: s.asked, Cut: errors.Is(err, io.EOF)}
				if resp != nil {
					got.Code = resp.StatusCode
					_ = resp.Body.Close()
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}
