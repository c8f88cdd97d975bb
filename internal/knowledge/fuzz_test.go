// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package knowledge_test

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/knowledge"
)

// FuzzParse feeds the reader of knowledge files: every refusal names the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("risks:\n- id: a\n"))
	f.Add([]byte(""))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		risks, err := knowledge.Parse("knowledge.yaml", data)
		if err == nil {
			for _, r := range risks {
				if r.ID == "" {
					t.Errorf("accepted without an ID: %+v", r)
				}
			}
			return
		}
		if !strings.Contains(err.Error(), "knowledge.yaml") {
			t.Errorf("the refusal does not name the file: %v", err)
		}
	})
}
