// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func hasVerb(stepID, verb string) bool { return strings.HasPrefix(stepID, verb+"/") }

// measured scales the time of the newest completed run to the number of steps. Runs that stopped on the way measure
// people, not the platform, and are left out.
func measured(past []v1alpha1.Upgrade, steps int) (time.Duration, string) {
	for i := range past {
		u := &past[i]
		n := len(u.Status.Steps)
		if n == 0 || u.Status.StartedAt == nil || u.Status.FinishedAt == nil || u.Status.ObservedResumes > 0 || !completed(u) {
			continue
		}
		took := u.Status.FinishedAt.Sub(u.Status.StartedAt.Time)
		return (took * time.Duration(steps) / time.Duration(n)).Round(time.Second), fmt.Sprintf("run %s took %s for %d steps", u.Name, took.Round(time.Second), n)
	}
	return 0, ""
}

func completed(u *v1alpha1.Upgrade) bool { return Completed([]v1alpha1.Upgrade{*u}) != "" }
