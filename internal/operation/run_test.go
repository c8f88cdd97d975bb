// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestStillAsDrafted(t *testing.T) {
	t.Parallel()
	upgrade := func(name, version string, ended bool) v1alpha1.Upgrade {
		u := v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
		if ended {
			u.Status.FinishedAt = &metav1.Time{}
		}
		return u
	}
	stopped := upgrade("a", "1", false)
	for name, tc := range map[string]struct {
		drafted *v1alpha1.Upgrade
		now     []v1alpha1.Upgrade
		want    problem.Exit
	}{
		"no run then, none now":               {},
		"no run then, an ended one now":       {now: []v1alpha1.Upgrade{upgrade("b", "2", true)}, want: problem.ExitBlocked},
		"no run then, an open one now":        {now: []v1alpha1.Upgrade{upgrade("b", "2", false)}, want: problem.ExitBlocked},
		"a stopped run then, the same now":    {drafted: &stopped, now: []v1alpha1.Upgrade{upgrade("a", "1", false)}},
		"a stopped run then, resumed since":   {drafted: &stopped, now: []v1alpha1.Upgrade{upgrade("a", "2", false)}, want: problem.ExitBlocked},
		"a stopped run then, ended since":     {drafted: &stopped, now: []v1alpha1.Upgrade{upgrade("a", "2", true)}, want: problem.ExitBlocked},
		"a stopped run then, another one now": {drafted: &stopped, now: []v1alpha1.Upgrade{upgrade("b", "3", false), upgrade("a", "2", true)}, want: problem.ExitBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var past []v1alpha1.Upgrade
			if tc.drafted != nil {
				past = append(past, *tc.drafted)
			}
			err := stillAsDrafted(&Draft{Open: tc.drafted, newest: newest(past)}, tc.now)
			if problem.ExitOf(err) != tc.want {
				t.Errorf("got %v, want exit code %d", err, tc.want)
			}
		})
	}
}
