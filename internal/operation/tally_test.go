// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

type counts []world.Probe

func (c counts) Snapshot() []world.Probe { return append([]world.Probe(nil), c...) }

func TestTallyCoversEarlierProcesses(t *testing.T) {
	t.Parallel()
	before := &v1alpha1.FenceStatus{Probes: []v1alpha1.ProbeStatus{
		{Cluster: "ns/a", Total: 10, Failed: 2, LongestGap: metav1.Duration{Duration: 5 * time.Second}, Gaps: []string{"earlier gap"}},
		{Cluster: "ns/gone", Total: 3, Failed: 1},
	}}
	got := (&tally{before: before, now: counts{{Cluster: "ns/a", Total: 4, LongestGap: time.Second}, {Cluster: "ns/new", Total: 1}}}).Snapshot()
	want := []world.Probe{
		{Cluster: "ns/a", Total: 14, Failed: 2, LongestGap: 5 * time.Second, Earlier: []string{"earlier gap"}},
		{Cluster: "ns/new", Total: 1},
		{Cluster: "ns/gone", Total: 3, Failed: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
