// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

// FuzzReadPlanFile feeds the reader of saved plans: every refusal is a problem.
func FuzzReadPlanFile(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add([]byte(`{"apiVersion":"capstan.dev/v1alpha1","kind":"PlanFile","digest":"sha256:0"}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := ReadPlanFile("plan.json", data); err != nil {
			if p, ok := errors.AsType[*problem.Error](err); !ok || p.Message == "" {
				t.Errorf("not a complete problem: %v", err)
			}
		}
	})
}
