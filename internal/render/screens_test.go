// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/problem"
)

var update = flag.Bool("update", false, "write the golden files anew")

// screens are all documents, by the name of their golden file.
func screens() map[string]Document {
	now := at(30).Time
	blocked, rich := blockedSpec(), richSpec()
	accepted := []v1alpha1.AcceptedFinding{{ID: "CAP-FLEET-AT-REST", Reason: "the cluster is being deleted"}}
	paused := runWith(3)
	paused.Spec.Intent = v1alpha1.IntentPause
	aborted := conditions(runWith(3), metav1.ConditionFalse, v1alpha1.ReasonAborted, metav1.ConditionFalse)
	aborted.Status.FinishedAt = atp(9)
	superseded := conditions(runWith(1), metav1.ConditionFalse, v1alpha1.ReasonSuperseded, metav1.ConditionTrue)
	superseded.Name, superseded.Status.FinishedAt = "to-v1.14.1-20260630-090000", atp(9)
	return map[string]Document{
		"plan-ready":     &Plan{Name: "plan-dd", Spec: readySpec(), Next: prompt("upgrade", "rel")},
		"plan-blocked":   &Plan{Name: "plan-dd", Spec: blocked, Blocking: check.Blocking(blocked.Findings, nil), Refusal: "x", Next: prompt("plan", "rel")},
		"plan-accepted":  &Plan{Name: "plan-dd", Spec: blocked, Blocking: check.Blocking(blocked.Findings, accepted), Accepted: accepted, Next: prompt("plan", "rel")},
		"plan-under-way": &Plan{Name: "plan-dd", Spec: readySpec(), Refusal: "Run a to v1.12.0 has not ended", Next: prompt("plan", "rel")},
		"plan-goes-on":   &Plan{Name: "plan-dd", Spec: readySpec(), Goes: stoppedRun(), Next: prompt("upgrade", "rel")},
		"plan-rich":      &Plan{Name: "plan-dd", Spec: rich, Blocking: check.Blocking(rich.Findings, nil), Refusal: "x", Next: prompt("plan", "rel")},
		"plan-diff":      &Plan{Name: "plan-dd", Spec: readySpec(), Diff: entries(), Next: prompt("upgrade", "--plan", "file")},
		"plan-saved":     &Plan{Name: "plan-dd", Spec: readySpec(), Noted: []string{"there are 7 Machines, there were 6: nothing in the plan depends on that"}, Next: prompt("upgrade", "--plan", "file")},
		"plan-nothing":   &Plan{Name: "plan-dd", Spec: doneSpec(), Next: prompt("status")},

		"status-first":    &Status{World: management("v1.13.4", "v1.13.4"), Now: now, Next: prompt},
		"status-idle":     &Status{World: management("v1.14.2", "v1.14.2"), PlatformVersion: "v1.14.2", Last: completedRun(), Now: now, Next: prompt},
		"status-between":  &Status{World: management("v1.14.2", "v1.13.4"), PlatformVersion: "v1.13.4", Last: aborted, Now: now, Next: prompt},
		"status-moving":   &Status{World: management("v1.13.4", "v1.13.4"), PlatformVersion: "v1.13.4", Open: movingRun(), Plan: readySpec(), Driver: "ann@laptop, process 42", Now: now, Next: prompt},
		"status-standing": &Status{World: management("v1.13.4", "v1.13.4"), Open: runWith(3), Plan: readySpec(), Now: now, Next: prompt},
		"status-paused":   &Status{World: management("v1.13.4", "v1.13.4"), Open: paused, Plan: readySpec(), Now: now, Next: prompt},
		"status-stopped":  &Status{World: management("v1.13.4", "v1.13.4"), Open: stoppedRun(), Plan: readySpec(), Now: now, Next: prompt},
		"status-violated": &Status{World: management("v1.14.2", "v1.13.4"), Open: violatedRun(), Plan: readySpec(), Now: now, Next: prompt},
		"status-blind":    &Status{WorldError: "The management cluster can't be reached", Open: runWith(3), Now: now, Next: prompt},

		"history":       &History{Runs: []v1alpha1.Upgrade{*completedRun(), *superseded}, Now: now, Next: prompt},
		"history-stop":  &History{Runs: []v1alpha1.Upgrade{*stoppedRun()}, Now: now, Next: prompt},
		"history-empty": &History{Now: now, Next: prompt},

		"summary-done":    &Summary{Run: completedRun(), Plan: readySpec(), Now: now, Next: prompt("status")},
		"summary-nothing": &Summary{Plan: doneSpec(), Now: now, Next: prompt("status")},
		"summary-stopped": &Summary{Run: stoppedRun(), Plan: readySpec(), Now: now, Next: prompt("resume")},

		"explain": &Explanation{Checks: []ExplainedCheck{{ID: "CAP-A", Title: "All is well", Doc: strings.Repeat("word ", 40), Fix: "Mend it.", Sources: []string{"https://example.org/1"}, Waivable: true}, {ID: "CAP-B", Title: "Nothing is wrong", Doc: "Short."}}, Next: prompt("plan", "RELEASE")},
		"notice":  &Notice{Message: "Paused: run a", Run: "a", Next: prompt("resume")},
		"version": &Version{Version: "v0.1.0", Revision: "abc", Go: "go1.26.8", Platform: "linux/amd64"},
	}
}

func TestScreens(t *testing.T) {
	t.Parallel()
	for name, doc := range screens() {
		for _, f := range []Format{FormatText, FormatJSON} {
			t.Run(name+"."+string(f), func(t *testing.T) {
				t.Parallel()
				var b bytes.Buffer
				if err := Write(&b, f, Style{}, doc); err != nil {
					t.Fatal(err)
				}
				golden(t, name+"."+string(f), b.Bytes())
			})
		}
	}
}

func TestStoppedScreens(t *testing.T) {
	t.Parallel()
	installed := stoppedRun()
	installed.Status.Stops[0].Component, installed.Status.Stops[0].Step = "infrastructure-docker", "swap/infrastructure-docker/v1.14.2"
	gap := runWith(6)
	gap.Status.Stops = []v1alpha1.Stop{imageStop()}
	gap.Status.Stops[0].Component, gap.Status.Stops[0].Step = "bootstrap-kubeadm", "swap/bootstrap-kubeadm/v1.14.2"
	for name, run := range map[string]*v1alpha1.Upgrade{
		"stopped-image": stoppedRun(), "stopped-fence": violatedRun(), "stopped-install": installed, "stopped-gap": gap,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name+".text", []byte((&Stopped{Run: run, Plan: readySpec(), Next: prompt}).Text(Style{})))
		})
	}
}

func TestStoppedProblemNamesTheFirstStop(t *testing.T) {
	t.Parallel()
	stop := imageStop()
	got := (&Stopped{Run: stoppedRun(), Next: prompt}).Problem()
	want := &problem.Error{Reason: stop.Reason, Object: objectName(*stop.Object), Message: stop.Message, Remedy: stop.Remedy, Exit: problem.ExitFailed}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("problem (-got +want):\n%s", diff)
	}
}

func TestYAMLHoldsTheSameAsJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Write(&b, FormatYAML, Style{}, screens()["status-stopped"]); err != nil {
		t.Fatal(err)
	}
	golden(t, "status-stopped.yaml", b.Bytes())
}

func TestColourOnlyAddsEscapes(t *testing.T) {
	t.Parallel()
	for name, doc := range screens() {
		plain, coloured := doc.Text(Style{}), doc.Text(Style{Colour: true})
		for _, code := range []string{codeBold, codeRed, codeGreen, codeYellow, "0"} {
			coloured = strings.ReplaceAll(coloured, "\x1b["+code+"m", "")
		}
		if diff := cmp.Diff(coloured, plain); diff != "" {
			t.Errorf("%s says something by colour alone (-coloured +plain):\n%s", name, diff)
		}
	}
}

func TestEveryScreenEndsWithACommand(t *testing.T) {
	t.Parallel()
	for name, doc := range screens() {
		lines := strings.Split(strings.TrimRight(doc.Text(Style{}), "\n"), "\n")
		if last := lines[len(lines)-1]; name != "version" && !strings.HasPrefix(last, "Next: capstan ") {
			t.Errorf("%s ends with %q", name, last)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // a fixed name below testdata
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("%s (-got +want):\n%s", name, diff)
	}
}
