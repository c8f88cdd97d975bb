// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/step/platform"
	"github.com/capstan-dev/capstan/internal/world"
)

func hasVerb(stepID, verb string) bool { return strings.HasPrefix(stepID, verb+"/") }

// pointOfNoReturn returns the first step after which objects may be stored in versions that the CRDs of the earlier
// release don't have: applying that release again would make them unreadable. A storage version that moves to one that
// the earlier CRD has as well is none.
func pointOfNoReturn(spec *v1alpha1.PlanSpec, objects platform.Objects, sets map[string]world.Set) string {
	points := map[string]bool{}
	for _, c := range spec.Components {
		if c.Action == v1alpha1.ActionNone {
			continue
		}
		for i, wanted := range objects[c.Name] {
			seen := sets[c.Name].Objects
			if wanted.GetKind() != "CustomResourceDefinition" || i >= len(seen) || seen[i].Live == nil || knows(seen[i].Live, storageVersion(wanted)) {
				continue
			}
			verb := "crds"
			if slices.ContainsFunc(c.TwoPhase, func(t v1alpha1.TwoPhaseCRD) bool { return t.Name == wanted.GetName() && t.Storage != "" }) {
				verb = "storage"
			}
			points[verb+"/"+c.Name+"/"+c.To] = true
		}
	}
	for _, s := range spec.Steps {
		if points[s.ID] {
			return s.ID
		}
	}
	return ""
}

func knows(crd *unstructured.Unstructured, version string) bool {
	return version == "" || slices.Contains(check.VersionNames(crd), version)
}

// measured scales the time of the newest completed run to the number of steps. Runs that stopped on the way measure
// people, not the platform, and are left out.
func measured(past []v1alpha1.Upgrade, steps int) (time.Duration, string) {
	for i := range past {
		u := &past[i]
		n := len(u.Status.Steps)
		if n == 0 || u.Spec.Kind == v1alpha1.PlanNodes || u.Status.StartedAt == nil || u.Status.FinishedAt == nil || u.Status.ObservedResumes > 0 || !completed(u) {
			continue
		}
		took := u.Status.FinishedAt.Sub(u.Status.StartedAt.Time)
		return (took * time.Duration(steps) / time.Duration(n)).Round(time.Second), fmt.Sprintf("run %s took %s for %d steps", u.Name, took.Round(time.Second), n)
	}
	return 0, ""
}
