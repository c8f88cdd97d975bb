// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/version"
)

// FuzzParse feeds the readers of versions and constraints: a version that is taken reads the same again.
func FuzzParse(f *testing.F) {
	f.Add("v1.34.1")
	f.Add("v1.34.1-rc.0+build")
	f.Add(">=1.2 <2")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := version.Parse(s); err == nil {
			again, err := version.Parse(v.String())
			if err != nil || again.String() != v.String() {
				t.Errorf("%q reads as %s, which reads as %s: %v", s, v, again, err)
			}
		}
		_, _ = version.ParseConstraint(s)
	})
}
