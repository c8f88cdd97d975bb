// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC23_OrderDoesNotDependOnTheListNorOnNeeds(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	parts := []part{
		{name: "x", version: "v1.0.0", provider: "InfrastructureProvider"},
		{name: "cluster-api", version: "v1.14.2", provider: "CoreProvider"},
		{name: "boot", version: "v1.14.2", provider: "BootstrapProvider"},
		{name: "cp", version: "v1.14.2", provider: "ControlPlaneProvider"},
		{name: "ipam", version: "v0.1.0", provider: "IPAMProvider"},
	}
	for i := range parts {
		parts[i].manifests = account(parts[i].name)
	}
	stages := [][]string{{"cluster-api"}, {"boot"}, {"cp"}, {"x", "ipam"}}
	for range 4 {
		seed := rand.Uint64()                                                                                          //nolint:gosec // an order to try needs no secrecy
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] }) //nolint:gosec // see above
		r := b.capstan(t, "plan", writeRelease(t, "v1.1.0", "", parts...), "-o", "json")
		want(t, r, problem.ExitDone)
		var p v1alpha1.Plan
		if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range p.Spec.Components {
			got = append(got, c.Name)
		}
		if diff := cmp.Diff(got, slices.Concat(stages...)); diff != "" {
			t.Fatalf("seed %d: the plan's order (-got +want):\n%s", seed, diff)
		}
		inOrder(t, p.Spec, stages)
	}
	text := b.capstan(t, "plan", writeRelease(t, "v1.1.0", "", parts...))
	want(t, text, problem.ExitDone)
	if at := positions(text.stdout, "cluster-api  ", "boot  ", "cp  ", "x  "); !slices.IsSorted(at) || at[0] < 0 {
		t.Errorf("the screen has the components at %v:\n%s", at, text.stdout)
	}
}

// inOrder checks that no step of a stage, CRDs aside, can begin before every step of the stages before has made its
// component one that can be relied on.
func inOrder(t *testing.T, spec v1alpha1.PlanSpec, stages [][]string) {
	t.Helper()
	needs := map[string][]string{}
	of := map[string]string{}
	for _, s := range spec.Steps {
		needs[s.ID], of[s.ID] = s.Needs, s.Component
	}
	for i, stage := range stages[1:] {
		for _, name := range stage {
			for _, earlier := range slices.Concat(stages[:i+1]...) {
				swap := "swap/" + name + "/" + version(spec, name)
				if !reaches(needs, of, swap, earlier) {
					t.Errorf("%s does not wait for %s", swap, earlier)
				}
			}
		}
	}
}

func version(spec v1alpha1.PlanSpec, component string) string {
	for _, c := range spec.Components {
		if c.Name == component {
			return c.To
		}
	}
	return ""
}

// reaches tells whether a step waits for a step of a component, directly or through others.
func reaches(needs map[string][]string, of map[string]string, step, component string) bool {
	return slices.ContainsFunc(needs[step], func(n string) bool { return of[n] == component || reaches(needs, of, n, component) })
}

// positions are where each piece stands in a text at the beginning of a line, -1 for nowhere.
func positions(text string, pieces ...string) []int {
	var out []int
	for _, p := range pieces {
		out = append(out, strings.Index(text, "\n"+p))
	}
	return out
}
