// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// trusted tells that an object was looked at, or brought to its target, so short ago that it is not looked at again, and
// fills in what is known of it. A step waits for few of its objects; the others would be read with each look. Whoever
// changes an object reads it first, so that to be told too late that it is at its target costs nothing.
func (r *round) trusted(t *task) bool {
	if t.wanted.Presence != world.Present || t.depth != stateOnly || t.called {
		return false
	}
	e := r.memo.state(t.key, r.at)
	if e == nil || !e.compared.lasting || e.compared.immutable || !e.holds(r.since) || e.live.GetDeletionTimestamp() != nil {
		return false
	}
	health, known := restingHealth(e.live)
	at := e.looked
	if known && health == nil && at.Before(e.applied) {
		// The answer to an apply says all there is to know of it.
		at = e.applied
	}
	if age := r.at.Sub(at); !known || at.IsZero() || age < 0 || age >= r.trust || (health != nil && !health.OK) {
		return false
	}
	t.is(e)
	t.at, t.result.Health = at, health
	return true
}

// restingHealth returns what a live object itself says of its health, nil where that has no meaning, and whether that is
// all there is to it: workloads move by themselves, and so does what cert-manager puts into webhook configurations.
func restingHealth(live *unstructured.Unstructured) (*world.Health, bool) {
	gvk := live.GroupVersionKind()
	switch gvk.Group {
	case "apps", "batch", "admissionregistration.k8s.io":
		return nil, false
	}
	return ownHealth(live), true
}

// oldest returns when all members of a set were as they are reported.
func oldest(now time.Time, members []*task) time.Time {
	for _, t := range members {
		if t.at.Before(now) {
			now = t.at
		}
	}
	return now
}
