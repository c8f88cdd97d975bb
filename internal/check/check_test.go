// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestEveryCheckExplainsItself(t *testing.T) {
	t.Parallel()
	id, seen := regexp.MustCompile(`^CAP(-[A-Z0-9]+)+$`), map[string]bool{}
	for _, c := range check.All() {
		if !id.MatchString(c.ID) || seen[c.ID] {
			t.Errorf("check %q: its ID is malformed or there twice", c.ID)
		}
		seen[c.ID] = true
		for field, text := range map[string]string{"Title": c.Title, "Doc": c.Doc, "Fix": c.Fix} {
			if text == "" {
				t.Errorf("check %s has no %s", c.ID, field)
			}
		}
		if c.Run == nil {
			t.Errorf("check %s does nothing", c.ID)
		}
	}
}

func TestWhatNobodyLookedAtIsUnknownAndBlocks(t *testing.T) {
	t.Parallel()
	checks := []check.Check{
		{ID: "CAP-LOOKED", Needs: []world.Topic{"seen"}, Run: func(*world.World, *check.Target) []v1alpha1.Finding { return nil }},
		{ID: "CAP-DENIED", Needs: []world.Topic{"denied"}, Run: panics},
		{ID: "CAP-NEVER", Needs: []world.Topic{"never"}, Waivable: true, Run: panics},
	}
	w := &world.World{Survey: &world.Survey{Looked: map[world.Topic]string{"seen": "", "denied": "access is forbidden"}}}
	found := check.Run(checks, w, &check.Target{})
	var got []string
	for _, f := range check.Blocking(found, []v1alpha1.AcceptedFinding{{ID: "CAP-NEVER", Reason: "tried elsewhere"}}) {
		got = append(got, f.ID+" "+string(f.Verdict)+": "+f.Summary)
	}
	if diff := cmp.Diff([]string{"CAP-DENIED Unknown: denied could not be looked at: access is forbidden"}, got); diff != "" {
		t.Errorf("blocking findings (-want +got):\n%s", diff)
	}
}

func panics(*world.World, *check.Target) []v1alpha1.Finding { panic("asked although it can't know") }
