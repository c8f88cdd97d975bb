// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package check judges whether an upgrade can start. Each check is a value in one registry, looks at plain data, and
// answers with findings that carry a remedy. All run, whatever the others say. It neither fetches nor prints.
//
// A new check goes into the file of its theme. What it has to know of the cluster is a topic of world.Survey; what could
// not be looked at is reported as Unknown by Run, so that no check mistakes ignorance for health.
package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/world"
)

// Scope says which plans a check is for.
type Scope string

const (
	// Platform is a plan that moves the management cluster's components.
	Platform Scope = "platform"
	// Nodes is a plan that rolls Machines.
	Nodes Scope = "nodes"
	// Both is for either.
	Both Scope = "both"
	// Verify is no plan at all: a look at what an upgrade left behind.
	Verify Scope = "verify"
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
	// AllowPrerelease tells that pre-releases are meant.
	AllowPrerelease bool
	// NoMigrate tells that stored objects are not to be rewritten or repaired by the run.
	NoMigrate bool
	// Knowledge are known risks that the operator brings along.
	Knowledge []v1alpha1.KnownRisk
	// Settings are what an upgrade of each component resets, by its name.
	Settings map[string][]settings.Change
	// Installed are the components of the run that was completed last, as they were planned; none if that is not known.
	Installed []v1alpha1.PlannedComponent
	// Nodes is what is to become of the nodes of workload clusters; nil in a plan for the platform. A plan for nodes has no Bundle.
	Nodes *NodeTarget
	// Undone are the steps of the last completed run that are not where it left them; for Verify alone.
	Undone []UndoneStep
}

// Check is one question about an upgrade.
type Check struct {
	// ID is stable: "CAP-CRD-STORED-VERSION".
	ID string
	// Title says in one line what is made sure of.
	Title string
	// Doc says why, for `capstan explain` and the check's page.
	Doc string
	// Fix says in general what to do about a finding; each finding has its own remedy besides.
	Fix string
	// Sources are addresses of public reports or documents that the check goes back to.
	Sources []string
	// Scope says which plans it is for; empty is Platform.
	Scope Scope
	// Waivable tells whether its findings may be accepted by name with a reason.
	Waivable bool
	// Needs are the topics of the survey that it reads. If one could not be observed, the check is Unknown.
	Needs []world.Topic
	// Run returns what was found; nothing when all is well.
	Run func(w *world.World, t *Target) []v1alpha1.Finding
}

// All returns every check, in the order in which findings of equal weight are shown.
func All() []Check {
	return slices.Concat(
		versionChecks(),
		knowledgeChecks(),
		providerChecks(),
		storageChecks(),
		objectChecks(),
		settingChecks(),
		fleetChecks(),
		selfHostedChecks(),
		clusterChecks(),
		webhookChecks(),
		accessChecks(),
		nodeChecks(),
		[]Check{componentHealth()},
	)
}

// For returns the checks of a plan of the given scope, in the order of All.
func For(s Scope) []Check {
	return slices.DeleteFunc(All(), func(c Check) bool {
		have := c.Scope
		if have == "" {
			have = Platform
		}
		return have != Both && have != s
	})
}

// Topics returns what the checks need to have looked into, each topic once.
func Topics(checks []Check) []world.Topic {
	var out []world.Topic
	for _, c := range checks {
		for _, t := range c.Needs {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// Run runs the checks and returns their findings, blocking ones first.
func Run(checks []Check, w *world.World, t *Target) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, c := range checks {
		for _, f := range c.run(w, t) {
			f.ID, f.Waivable = c.ID, c.Waivable
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.Finding) int { return Rank(a.Verdict) - Rank(b.Verdict) })
	return out
}

// run answers Unknown where the check would have to look at something that could not be observed.
func (c Check) run(w *world.World, t *Target) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, topic := range c.Needs {
		if why, failed := w.Survey.Failed(topic); failed {
			out = append(out, unknown(
				fmt.Sprintf("%s could not be looked at: %s", topic, why),
				"make it readable for the account that you use, then plan again"))
		}
	}
	if len(out) > 0 {
		return out
	}
	return c.Run(w, t)
}

// Rank sorts verdicts: what blocks comes first.
func Rank(v v1alpha1.Verdict) int {
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
