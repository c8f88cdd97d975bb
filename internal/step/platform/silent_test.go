// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestARefusalIsDefiniteUnlessOnlyAWebhookIsSilent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		silent       bool
		wantReason   string
		wantDefinite bool
	}{
		"the API server says no":                  {wantReason: v1alpha1.StopRejected, wantDefinite: true},
		"a webhook that is asked does not answer": {silent: true, wantReason: v1alpha1.StopWebhookSilent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Issuer"}}
			s := &objectSet{base: base{id: "swap"}, objects: []*unstructured.Unstructured{o}}
			seen := world.Object{Ref: world.RefOf(o), Presence: world.Present, Found: true, Refused: "why", Silent: tc.silent}
			p := s.Progress(&world.World{Sets: map[string]world.Set{"swap": {Objects: []world.Object{seen}}}})
			if p.State != step.Waiting || len(p.Causes) != 1 {
				t.Fatalf("got %+v, want it to wait for one cause", p)
			}
			if c := p.Causes[0]; c.Reason != tc.wantReason || c.Definite != tc.wantDefinite {
				t.Errorf("cause is %s, definite %t; want %s, %t", c.Reason, c.Definite, tc.wantReason, tc.wantDefinite)
			}
		})
	}
}
