// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestContinues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// digest is that of the release asked for; the run's is "a".
		digest  string
		stalled metav1.ConditionStatus
		reasons []string
		want    bool
	}{
		"a moving run to the same release":                    {digest: "a", stalled: metav1.ConditionFalse, want: true},
		"a moving run to another release":                     {digest: "b", stalled: metav1.ConditionFalse},
		"a run stopped by an image":                           {digest: "a", stalled: metav1.ConditionTrue, reasons: []string{v1alpha1.StopImageNotFound}, want: true},
		"a run stopped by an image, with a corrected release": {digest: "b", stalled: metav1.ConditionTrue, reasons: []string{v1alpha1.StopImageNotFound}},
		"a run stopped by the fence":                          {digest: "a", stalled: metav1.ConditionTrue, reasons: []string{v1alpha1.StopFenceViolated}},
		"a run stopped by a refusal among others":             {digest: "a", stalled: metav1.ConditionTrue, reasons: []string{v1alpha1.StopNotReady, v1alpha1.StopRejected}},
		"a run that was resumed after a refusal":              {digest: "a", stalled: metav1.ConditionFalse, reasons: []string{v1alpha1.StopRejected}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := &v1alpha1.Upgrade{}
			run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: tc.stalled}}
			for _, r := range tc.reasons {
				run.Status.Stops = append(run.Status.Stops, v1alpha1.Stop{Reason: r})
			}
			plan := &v1alpha1.Plan{Spec: v1alpha1.PlanSpec{Release: v1alpha1.ReleaseReference{Digest: "a"}}}
			draft := &Draft{Spec: &v1alpha1.PlanSpec{Release: v1alpha1.ReleaseReference{Digest: tc.digest}}, Open: run}
			if got := continues(plan, draft); got != tc.want {
				t.Errorf("continues = %t, want %t", got, tc.want)
			}
		})
	}
}
