// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/scenarios/bed"
)

// TestPlatformUpgrade tells the main story from a plan that writes nothing to a second upgrade that has nothing to do,
// with everything that a user can type wrong in between.
func TestPlatformUpgrade(t *testing.T) {
	b := bed.Start(t, 1)
	release := b.Releases[bed.NewVersion]

	t.Run("a plan writes nothing", func(t *testing.T) {
		before := time.Now()
		r := b.Capstan(t.Context(), "plan", release, "-o", "json")
		bed.Want(t, r, 0)
		plan := bed.Decode[v1alpha1.Plan](t, r.Stdout)
		if plan.Spec.Base.Machines != 6 || plan.Spec.Forecast.MachinesReplaced != 0 || len(plan.Spec.Steps) == 0 {
			t.Errorf("the plan has %d Machines, replaces %d and has %d steps; want 6, 0 and some", plan.Spec.Base.Machines, plan.Spec.Forecast.MachinesReplaced, len(plan.Spec.Steps))
		}
		if got := b.Writes(t, before); len(got) > 0 {
			t.Errorf("the plan wrote:\n%s", strings.Join(got, "\n"))
		}
	})

	t.Run("bad input is refused without a write", func(t *testing.T) { badInput(t, b) })

	t.Run("without a terminal the confirmation needs its flag", func(t *testing.T) {
		bed.Want(t, b.Capstan(t.Context(), "upgrade", release), 2, "--yes")
	})

	began := time.Now()
	t.Run("the upgrade ends with the proof", func(t *testing.T) {
		r := b.Capstan(t.Context(), "upgrade", release, "--yes")
		bed.Want(t, r, 0, "6 of 6", "v1.13.4", "v1.14.2", "cluster-api", "default/fleet-1")
	})

	t.Run("C23 providers move in Cluster API's order, each once the one before is healthy", func(t *testing.T) { providerOrder(t, b, began) })

	t.Run("clusterctl reads the new version", func(t *testing.T) {
		r := b.Sandbox(t.Context(), "clusterctl", "--", "upgrade", "plan")
		bed.Want(t, r, 0, "v1.14.2")
		if strings.Contains(r.Stdout, "v1.13.4") {
			t.Errorf("clusterctl still sees v1.13.4:\n%s", r.Stdout)
		}
	})

	t.Run("again there is nothing to do", func(t *testing.T) {
		before := time.Now()
		bed.Want(t, b.Capstan(t.Context(), "upgrade", release, "--yes"), 0, "nothing to do")
		if got := b.Writes(t, before); len(got) > 0 {
			t.Errorf("an upgrade with nothing to do wrote:\n%s", strings.Join(got, "\n"))
		}
	})

	t.Run("going back is refused", func(t *testing.T) {
		bed.Want(t, b.Capstan(t.Context(), "upgrade", b.Releases[bed.OldVersion], "--yes"), 3, "v1.13.4")
	})

	t.Run("history remembers", func(t *testing.T) {
		bed.Want(t, b.Capstan(t.Context(), "history"), 0, "v1.14.2", "6 of 6")
	})

	t.Run("hazards", func(t *testing.T) { hazards(t, b) })
}

// badInput gives the upgrade what people give it by mistake. Each gets its exit code, one message with the place, and no
// write.
func badInput(t *testing.T, b *bed.Bed) {
	good := string(bed.Read(t, filepath.Join(b.Releases[bed.NewVersion], "release.yaml")))
	for name, tc := range map[string]struct {
		text   string
		code   int
		pieces []string
	}{
		"empty file":        {text: "", code: 2, pieces: []string{"release.yaml", "empty"}},
		"not YAML":          {text: "spec: [", code: 2, pieces: []string{"release.yaml:1"}},
		"unknown field":     {text: strings.Replace(good, "spec:\n", "spec:\n  colour: red\n", 1), code: 2, pieces: []string{"release.yaml:", "colour"}},
		"need not there":    {text: strings.Replace(good, "needs:\n", "needs:\n    - no-such\n", 1), code: 2, pieces: []string{"release.yaml:", "no-such"}},
		"bad digest":        {text: strings.Replace(good, "digest: sha256:", "digest: sha256:0000", 1), code: 2, pieces: []string{"release.yaml:", "digest"}},
		"unreachable URL":   {text: withURL(good), code: 3, pieces: []string{"127.0.0.1:1"}},
		"a cycle":           {text: strings.Replace(good, "- name: cert-manager\n", "- name: cert-manager\n      needs: [cluster-api]\n", 1), code: 2, pieces: []string{"release.yaml:", "cert-manager", "cluster-api", "->"}},
		"wrong kind":        {text: strings.Replace(good, "kind: Release", "kind: Relaese", 1), code: 2, pieces: []string{"release.yaml:", "Relaese"}},
		"two documents":     {text: good + "\n---\n" + good, code: 2, pieces: []string{"release.yaml"}},
		"digest of another": {text: flipDigest(good), code: 3, pieces: []string{"sha256"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bed.Variant(t, b.Releases[bed.NewVersion], "v1.14.2")
			bed.Write(t, filepath.Join(dir, "release.yaml"), []byte(tc.text))
			before := time.Now()
			for _, verb := range []string{"plan", "upgrade"} {
				args := []string{verb, dir}
				if verb == "upgrade" {
					args = append(args, "--yes")
				}
				bed.Want(t, b.Capstan(t.Context(), args...), tc.code, tc.pieces...)
			}
			if got := b.Writes(t, before); len(got) > 0 {
				t.Errorf("bad input led to writes:\n%s", strings.Join(got, "\n"))
			}
		})
	}
	t.Run("a release that is not there", func(t *testing.T) {
		bed.Want(t, b.Capstan(t.Context(), "plan", filepath.Join(t.TempDir(), "none")), 2, "none")
	})
}

// withURL makes the first source one that nobody serves.
func withURL(good string) string {
	i := strings.Index(good, "path: ")
	end := i + strings.Index(good[i:], "\n")
	return good[:i] + "url: http://127.0.0.1:1/components.yaml" + good[end:]
}

// flipDigest changes one digit of the first digest.
func flipDigest(good string) string {
	i := strings.Index(good, "sha256:") + len("sha256:")
	digit := "0"
	if good[i:i+1] == "0" {
		digit = "1"
	}
	return good[:i] + digit + good[i+1:]
}
