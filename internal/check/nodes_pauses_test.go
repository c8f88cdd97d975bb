// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestManyPausedClustersAreToldTogether(t *testing.T) {
	t.Parallel()
	paused := func(n int, run string) []world.Pause {
		var out []world.Pause
		for i := range n {
			name := fmt.Sprintf("c%04d", i)
			out = append(out, world.Pause{
				Cluster: "n/" + name, Object: world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "n", Name: name}, Where: "spec.paused", Run: run,
			})
		}
		return out
	}
	for name, c := range map[string]struct {
		pauses []world.Pause
		want   int
		piece  string
	}{
		"a few are told one by one":              {paused(10, ""), 10, "Cluster n/c0009 is paused by spec.paused"},
		"many are one finding":                   {paused(1000, ""), 1, "In 1000 clusters something is paused, not by Capstan"},
		"those of a run are told whatever comes": {paused(20, "to-v2"), 20, "set by Capstan's run to-v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world.World{Survey: &world.Survey{Looked: map[world.Topic]string{world.TopicPauses: ""}, Pauses: c.pauses}}
			got := onlyCheck(t, "CAP-PAUSED", w, &check.Target{})
			if len(got) != c.want {
				t.Fatalf("%d findings, want %d: %v", len(got), c.want, got)
			}
			if last := got[len(got)-1]; !strings.Contains(last, c.piece) {
				t.Errorf("finding %q, want %q", last, c.piece)
			}
		})
	}
}
