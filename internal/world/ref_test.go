// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestSameIsAboutTheObjectNotTheVersionItWasReadIn(t *testing.T) {
	t.Parallel()
	base := world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Namespace: "a", Name: "b"}
	tests := map[string]struct {
		change func(*world.Ref)
		want   bool
	}{
		"another version":   {change: func(r *world.Ref) { r.APIVersion = "cluster.x-k8s.io/v1beta1" }, want: true},
		"another group":     {change: func(r *world.Ref) { r.APIVersion = "v1beta2" }},
		"another kind":      {change: func(r *world.Ref) { r.Kind = "MachineSet" }},
		"another namespace": {change: func(r *world.Ref) { r.Namespace = "c" }},
		"another name":      {change: func(r *world.Ref) { r.Name = "c" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := base
			test.change(&other)
			if got := base.Same(other); got != test.want {
				t.Errorf("Same() = %t, want %t", got, test.want)
			}
		})
	}
}
