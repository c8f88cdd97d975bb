// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package check judges whether an upgrade can start. Each check is a value in one list, looks at plain data, and
// answers with findings that carry a remedy. All run, whatever the others say. It neither fetches nor prints.
package check

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// Target is what is to become of the management cluster.
type Target struct {
	// Bundle is the release with everything it consists of.
	Bundle *release.Bundle
	// Components are the decisions made so far, one for each component of the release.
	Components []v1alpha1.PlannedComponent
	// PlatformVersion is the release that was last completed here, empty if none was.
	PlatformVersion string
	// Sets are the observed objects of each component by its name.
	Sets map[string]world.Set
}

// Check is one question about an upgrade.
type Check struct {
	// ID is stable: "CAP-CRD-STORED-VERSION".
	ID string
	// Doc says what is made sure of and why, for `capstan explain`.
	Doc string
	// Waivable tells whether its findings may be accepted by name with a reason.
	Waivable bool
	// Run returns what was found; nothing when all is well.
	Run func(w *world.World, t *Target) []v1alpha1.Finding
}

// All returns every check, in the order in which findings are shown.
func All() []Check {
	return []Check{
		// Make sure that the release supports the Kubernetes versions that are there.
		kubernetesRange(),
		// Make sure that this release may follow the one that is installed.
		releaseEdge(),
		// Make sure that nothing goes backwards: stored objects can't be read by older controllers.
		downgrade(),
		// Make sure that no provider skips more minor versions than Cluster API supports.
		skippedMinors(),
		// Make sure that each provider is installed once: the inventory can't tell instances apart.
		singleInstance(),
		// Make sure that all providers speak the core provider's contract afterwards.
		contracts(),
		// Make sure that nobody forgets a provider that stays where it is.
		strangers(),
		// Make sure that no stored object becomes unreadable.
		storedVersions(),
		// Make sure that the API server would take every object, before the first is sent.
		refusedObjects(),
		// Make sure that nobody is surprised by objects that stay behind.
		leftCRDs(),
		// Make sure that nobody loses settings unawares.
		handChanges(),
		// Make sure that the fleet is at rest, so that the fence can tell an unrequested change from a requested one.
		fleetAtRest(),
		// Make sure that the management cluster has a node to run new controllers on.
		readyNode(),
	}
}

// Run runs the checks and returns their findings, blocking ones first.
func Run(checks []Check, w *world.World, t *Target) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, c := range checks {
		for _, f := range c.Run(w, t) {
			f.ID, f.Waivable = c.ID, c.Waivable
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.Finding) int { return rank(a.Verdict) - rank(b.Verdict) })
	return out
}

func rank(v v1alpha1.Verdict) int {
	switch v {
	case v1alpha1.VerdictBlock:
		return 0
	case v1alpha1.VerdictUnknown:
		return 1
	case v1alpha1.VerdictWarn:
		return 2
	case v1alpha1.VerdictPass:
	}
	return 3
}

// Blocking returns the findings that keep a run from starting: those that block or are unknown and are not accepted.
func Blocking(findings []v1alpha1.Finding, accepted []v1alpha1.AcceptedFinding) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, f := range findings {
		if f.Verdict != v1alpha1.VerdictBlock && f.Verdict != v1alpha1.VerdictUnknown {
			continue
		}
		waived := f.Waivable && slices.ContainsFunc(accepted, func(a v1alpha1.AcceptedFinding) bool {
			return a.ID == f.ID && strings.TrimSpace(a.Reason) != ""
		})
		if !waived {
			out = append(out, f)
		}
	}
	return out
}

func block(summary, remedy string, objects ...world.Ref) v1alpha1.Finding {
	return finding(v1alpha1.VerdictBlock, summary, remedy, objects)
}

func unknown(summary, remedy string, objects ...world.Ref) v1alpha1.Finding {
	return finding(v1alpha1.VerdictUnknown, summary, remedy, objects)
}

func warn(summary, remedy string, objects ...world.Ref) v1alpha1.Finding {
	return finding(v1alpha1.VerdictWarn, summary, remedy, objects)
}

func finding(v v1alpha1.Verdict, summary, remedy string, objects []world.Ref) v1alpha1.Finding {
	f := v1alpha1.Finding{Verdict: v, Summary: summary, Remedy: remedy}
	for _, o := range objects {
		f.Objects = append(f.Objects, v1alpha1.ObjectReference(o))
	}
	return f
}
