// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package phrase_test

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/phrase"
)

func TestPhrases(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ got, want string }{
		"none are many":               {phrase.Count(0, "step"), "0 steps"},
		"one is one":                  {phrase.Count(1, "step"), "1 step"},
		"more are many":               {phrase.Count(int64(3), "step"), "3 steps"},
		"nobody is named":             {phrase.Some(nil), ""},
		"three are all named":         {phrase.Some([]string{"a", "b", "c"}), "a, b, c"},
		"of five two are counted":     {phrase.Some([]string{"a", "b", "c", "d", "e"}), "a, b, c and 2 more"},
		"one name has a single noun":  {phrase.Named("variable", []string{"A"}), "variable A"},
		"two names have a plural one": {phrase.Named("variable", []string{"A", "B"}), "variables A, B"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.got != test.want {
				t.Errorf("%q, want %q", test.got, test.want)
			}
		})
	}
}
