// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// versionChecks are about what may follow what.
func versionChecks() []Check {
	return []Check{kubernetesRange(), releaseEdge(), downgrade(), majorJump(), skippedMinors(), preReleases(), skippedVersions(), dependents()}
}

func releaseEdge() Check {
	return Check{
		ID: "CAP-RELEASE-EDGE", Waivable: true,
		Title: "This release may follow the one that is installed",
		Doc: "A release lists the releases it may be reached from (upgradeFrom). Others have not been tried by its makers, or are known to fail: " +
			"a stop that was left out is often where data was moved. Which release is installed is known from the last run that completed here.",
		Fix:     "Upgrade to one of the releases that it lists first.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/6691"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			from, to := t.Bundle.Release.Spec.UpgradeFrom, t.Bundle.Release.Spec.Version
			switch {
			case len(from) == 0, t.PlatformVersion == to, slices.Contains(from, t.PlatformVersion):
				return nil
			case t.PlatformVersion != "":
				return []v1alpha1.Finding{block(
					fmt.Sprintf("Release %s can't be reached from %s, only from %s", to, t.PlatformVersion, strings.Join(from, ", ")),
					fmt.Sprintf("upgrade to %s first", strings.Join(from, " or ")),
				)}
			case !slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool { return c.From != "" && c.Action == v1alpha1.ActionUpgrade }):
				return nil // a first install follows nothing
			}
			return []v1alpha1.Finding{warn(
				fmt.Sprintf("Release %s may be reached from %s only, and no run of Capstan tells which release is installed here", to, strings.Join(from, ", ")),
				"compare the versions under FROM with those of that release",
			)}
		},
	}
}

func downgrade() Check {
	return Check{
		ID:    "CAP-DOWNGRADE",
		Title: "Nothing goes backwards",
		Doc: "Cluster API does not support older controllers on newer objects: fields are lost and versions may be unreadable. " +
			"clusterctl upgrade apply accepts a downgrade without a word.",
		Fix:     "Choose a release whose components are at the installed versions or later.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api-operator/pull/407"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if c.From == "" {
					continue
				}
				order, err := version.Compare(c.To, c.From)
				switch {
				case err != nil:
					out = append(out, unknown(fmt.Sprintf("The versions of %s can't be compared: %v", c.Name, err), "look at the component's recorded version"))
				case order < 0:
					out = append(out, block(
						fmt.Sprintf("Component %s would go back from %s to %s", c.Name, c.From, c.To),
						fmt.Sprintf("choose a release with %s at %s or later", c.Name, c.From)))
				}
			}
			return out
		},
	}
}

// maxSkippedMinors is the rule of Cluster API for the core and kubeadm providers: at most three minor versions at a time
// (docs/book/src/reference/versions.md; cmd/clusterctl/client/cluster/upgrader.go).
const maxSkippedMinors = 3

func skippedMinors() Check {
	return Check{
		ID: "CAP-SKIPPED-MINORS", Waivable: true,
		Title:   "No provider skips more minor versions than Cluster API supports",
		Doc:     "Cluster API tests upgrades over at most three minor versions. A longer jump needs a stop between.",
		Fix:     "Upgrade to a release in between first.",
		Sources: []string{"https://cluster-api.sigs.k8s.io/reference/versions"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				from, errFrom := version.Parse(c.From)
				to, errTo := version.Parse(c.To)
				if errFrom != nil || errTo != nil || c.Type != v1alpha1.ComponentProvider {
					continue // the check downgrade reports versions that can't be read
				}
				distance, sameMajor := version.MinorDistance(from, to)
				if !sameMajor || distance <= maxSkippedMinors {
					continue // another major version is a check of its own
				}
				out = append(out, block(
					fmt.Sprintf("Component %s would jump from %s to %s, more than %d minor versions at once", c.Name, c.From, c.To, maxSkippedMinors),
					"upgrade to a release in between first"))
			}
			return out
		},
	}
}

func majorJump() Check {
	return Check{
		ID: "CAP-MAJOR-JUMP", Waivable: true,
		Title: "No component changes its major version unasked",
		Doc: "A new major version is where a project breaks what it promised: APIs, templates, stored objects. That is an upgrade to be read about first, and to be " +
			"agreed to by name.",
		Fix:     "Read the project's notes on the new major version, then accept the finding with what you found.",
		Sources: []string{"https://semver.org/#spec-item-8", "https://github.com/k0sproject/k0smotron/issues/1478"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if jumps(c.From, c.To) {
					out = append(out, block(
						fmt.Sprintf("Component %s would move to another major version, from %s to %s", c.Name, c.From, c.To),
						"read what its makers say about it, or choose a release with "+c.Name+" at "+majorOf(c.From)))
				}
			}
			spec := t.Bundle.Release.Spec
			if jumps(t.PlatformVersion, spec.Version) && !slices.Contains(spec.UpgradeFrom, t.PlatformVersion) {
				out = append(out, block(
					fmt.Sprintf("Release %s is of another major version than %s, which is installed, and does not say that it may follow it", spec.Version, t.PlatformVersion),
					"read what its makers say about it; they may list "+t.PlatformVersion+" under upgradeFrom"))
			}
			return out
		},
	}
}

// jumps tells whether to is of a later major version.
func jumps(from, to string) bool {
	a, errFrom := version.Parse(from)
	b, errTo := version.Parse(to)
	return errFrom == nil && errTo == nil && b.Major() > a.Major()
}

func majorOf(s string) string {
	v, err := version.Parse(s)
	if err != nil {
		return s
	}
	return fmt.Sprintf("v%d", v.Major())
}

func preReleases() Check {
	return Check{
		ID:    "CAP-PRERELEASE",
		Title: "No pre-release is installed unasked",
		Doc: "A pre-release may lack what a release has, and later versions need not be able to follow it. It is taken only if it is named in the release and " +
			"allowed by --allow-prerelease.",
		Fix:     "Take a stable version, or add --allow-prerelease.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api-provider-cloudstack/issues/205", "https://github.com/kubernetes-sigs/cluster-api/issues/8966"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			if t.AllowPrerelease {
				return nil
			}
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				if c.From != c.To && isPreRelease(c.To) {
					out = append(out, block(fmt.Sprintf("Component %s would move to %s, a pre-release", c.Name, c.To),
						"use a stable version, or add --allow-prerelease if this one is meant"))
				}
			}
			if v := t.Bundle.Release.Spec.Version; v != t.PlatformVersion && isPreRelease(v) {
				out = append(out, block(fmt.Sprintf("Release %s is a pre-release", v), "use a stable release, or add --allow-prerelease if this one is meant"))
			}
			return out
		},
	}
}

func isPreRelease(s string) bool {
	v, err := version.Parse(s)
	return err == nil && v.PreRelease() != ""
}

func skippedVersions() Check {
	return Check{
		ID:    "CAP-VERSION-SKIPPED",
		Title: "Newer versions that were passed over are known",
		Doc: "Where the release leaves a version open, the newest stable one that is published whole is taken. Newer ones that are pre-releases, or whose manifests or " +
			"metadata are not there yet, are passed over; that is no error.",
		Fix: "Nothing, if the version that was taken is meant. Name another one under version in the release.",
		Sources: []string{
			"https://github.com/kubernetes-sigs/cluster-api-ipam-provider-in-cluster/issues/356",
			"https://github.com/kubernetes-sigs/cluster-api-provider-openstack/issues/3237",
		},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, s := range t.Bundle.Skipped {
				what, remedy := "component "+s.Component, "name it under version in the release if it is meant"
				if s.Component == "" {
					what, remedy = "the release", "name it by its directory if it is meant"
				}
				if isPreRelease(s.Version) {
					remedy += ", and add --allow-prerelease"
				}
				out = append(out, warn(fmt.Sprintf("Version %s of %s was skipped and %s taken: %s", s.Version, what, s.Taken, s.Reason), remedy))
			}
			return out
		},
	}
}
