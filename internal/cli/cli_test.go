// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestUsageErrorsNameWhatIsWrongAndConnectToNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		// want is in the error, as are all its parts.
		want []string
	}{
		"an unknown command is told with one that is near": {[]string{"upgrad"}, []string{`no command "upgrad"`, "capstan upgrade"}},
		"an unknown flag":                        {[]string{"plan", "rel", "--force"}, []string{"--force", "capstan plan --help"}},
		"a missing release":                      {[]string{"plan"}, []string{"capstan plan needs a RELEASE"}},
		"a second release":                       {[]string{"plan", "a", "b"}, []string{`does not take "b"`}},
		"an upgrade to nothing":                  {[]string{"upgrade", "--yes"}, []string{"needs a RELEASE, or --plan FILE"}},
		"a release and a saved plan":             {[]string{"upgrade", "rel", "--plan", "f", "--yes"}, []string{"either RELEASE or --plan FILE"}},
		"a saved plan, made otherwise":           {[]string{"upgrade", "--plan", "f", "--keep-settings", "--yes"}, []string{"was decided when it was saved", "--save f"}},
		"an unknown format":                      {[]string{"status", "-o", "xml"}, []string{`"xml"`, "-o json"}},
		"an acceptance without a reason":         {[]string{"plan", "rel", "--accept", "CAP-X"}, []string{"CAP-X", "--accept ID="}},
		"an acceptance with an empty reason":     {[]string{"plan", "rel", "--accept", "CAP-X= "}, []string{"CAP-X", "--accept ID="}},
		"a missing --yes without a terminal":     {[]string{"upgrade", "rel"}, []string{"--yes", "capstan plan rel"}},
		"a stall limit that stops every run":     {[]string{"upgrade", "rel", "--yes", "--stall-limit", "0s"}, []string{"--stall-limit"}},
		"a stall limit that is no duration":      {[]string{"upgrade", "rel", "--yes", "--stall-limit", "soon"}, []string{"soon", "--help"}},
		"too many runs":                          {[]string{"resume", "a", "b"}, []string{`does not take "b"`}},
		"an unknown check":                       {[]string{"explain", "CAP-NONE"}, []string{"CAP-NONE", "one of CAP-"}},
		"an argument where none is taken":        {[]string{"history", "a"}, []string{`does not take "a"`}},
		"a roll to nothing":                      {[]string{"nodes", "upgrade", "--yes"}, []string{"needs an IMAGE"}},
		"a roll that nobody confirms":            {[]string{"nodes", "upgrade", "i", "--pools", "w"}, []string{"--yes", "capstan nodes plan i --pools w"}},
		"a strategy that is none":                {[]string{"nodes", "plan", "i", "--strategy", "fast"}, []string{`"fast"`, "scale-in"}},
		"how to roll without an image":           {[]string{"nodes", "plan", "--pools", "w"}, []string{"needs an IMAGE"}},
		"no cluster at once":                     {[]string{"nodes", "plan", "i", "--clusters-at-once", "0"}, []string{"--clusters-at-once 1"}},
		"a context where the words were swapped": {[]string{"--contxt", "a", "status"}, []string{"--contxt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			got := call(t, f, tc.args...)
			if got.exit != problem.ExitUsage || got.out != "" || f.closed {
				t.Errorf("exit %d, want %d; stdout %q, want none; connected %t, want false", got.exit, problem.ExitUsage, got.out, f.closed)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.err, want) {
					t.Errorf("stderr does not say %q:\n%s", want, got.err)
				}
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	paused := run()
	paused.Spec.Intent = v1alpha1.IntentPause
	for name, tc := range map[string]struct {
		f    *fake
		args string
		want problem.Exit
		// out and err have to be in the streams.
		out, err string
		writes   []string
	}{
		"a plan that may be run":            {f: &fake{spec: spec()}, args: "plan rel", out: "Ready: 1 of 1 component move"},
		"a plan that is blocked":            {f: &fake{spec: spec(blocking())}, args: "plan rel", want: 3, out: "BLOCK  CAP-X", err: "Cluster a/b is too old"},
		"a blocked plan that was accepted":  {f: &fake{spec: spec(blocking())}, args: "plan rel --accept CAP-X=tried", out: "Next: capstan upgrade rel --accept CAP-X=tried"},
		"an acceptance of nothing":          {f: &fake{spec: spec()}, args: "plan rel --accept CAP-Y=tried", want: 2, out: "Can't start: No finding CAP-Y", err: "No finding CAP-Y"},
		"a plan with nothing to do":         {f: &fake{spec: nothing()}, args: "plan rel", out: "Nothing to do"},
		"a plan beside another release":     {f: &fake{spec: spec(), open: run()}, args: "plan rel", want: 3, out: "Can't start: Run to-v2", err: "capstan resume"},
		"a plan of the open run's release":  {f: &fake{spec: spec(), open: run(), continues: true}, args: "plan rel", out: "Begun: run to-v2 to this release is under way"},
		"a release that can't be read":      {f: &fake{loadErr: problem.Usage("Empty", "rel.yaml:1", "The release is empty")}, args: "plan rel", want: 2, err: "rel.yaml:1"},
		"an upgrade that completes":         {f: &fake{spec: spec(), end: completes()}, args: "upgrade rel --yes", out: "Done: at v2.0.0", err: "Swap a to v2", writes: []string{"start"}},
		"an upgrade with nothing to do":     {f: &fake{spec: nothing()}, args: "upgrade rel --yes", out: "Already at v2.0.0, nothing to do"},
		"an upgrade that is blocked":        {f: &fake{spec: spec(blocking())}, args: "upgrade rel --yes", want: 3, err: "BLOCK  CAP-X"},
		"an upgrade beside another release": {f: &fake{spec: spec(), open: run()}, args: "upgrade rel --yes", want: 3, err: "has not ended"},
		"an upgrade goes on with its run": {
			f: &fake{spec: spec(), open: run(), continues: true, end: completes()}, args: "upgrade rel --yes",
			out: "Done: at v2.0.0", err: "going on with it", writes: []string{"resume to-v2"},
		},
		"an upgrade that stops": {
			f: &fake{spec: spec(), end: ends(false, metav1.ConditionFalse, v1alpha1.ReasonStopped, true, imageStop())}, args: "upgrade rel --yes",
			want: 5, err: "Pod x/y: image z does not exist\n    To do:   push z", writes: []string{"start"},
		},
		"an upgrade that the fence stops": {
			f:    &fake{spec: spec(), end: ends(false, metav1.ConditionFalse, v1alpha1.ReasonFenceViolated, true, v1alpha1.Stop{Reason: v1alpha1.StopFenceViolated, Message: "Machine m went"})},
			args: "upgrade rel --yes", want: 5, err: "Machine m went", writes: []string{"start"},
		},
		"an upgrade that another terminal aborts": {
			f: &fake{spec: spec(), end: ends(true, metav1.ConditionFalse, v1alpha1.ReasonAborted, false)}, args: "upgrade rel --yes",
			want: 4, out: "Aborted:", err: "aborted", writes: []string{"start"},
		},
		"an upgrade that another terminal pauses": {
			f: &fake{spec: spec(), end: func(u *v1alpha1.Upgrade) { u.Spec.Intent = v1alpha1.IntentPause }}, args: "upgrade rel --yes",
			want: 4, out: "Paused:", err: "capstan resume", writes: []string{"start"},
		},
		"an upgrade that loses the cluster": {
			f:    &fake{spec: spec(), followErr: &problem.Error{Reason: "Unreachable", Message: "gone", Exit: problem.ExitStopped}},
			args: "upgrade rel --yes", want: 4, err: "gone", writes: []string{"start"},
		},
		"an upgrade that is interrupted": {
			f:    &fake{spec: spec(), interrupt: func() {}, followErr: context.Canceled},
			args: "upgrade rel --yes", want: 130, err: "run to-v2 stands still", writes: []string{"start"},
		},
		"an upgrade while another process is at work": {
			f: &fake{spec: spec(), startErr: problem.Blocked("HeldByAnother", "Capstan is already at work")}, args: "upgrade rel --yes",
			want: 3, err: "already at work", writes: []string{"start"},
		},
		"a resume that completes":       {f: &fake{spec: spec(), open: run(), end: completes()}, args: "resume", out: "Done: at v2.0.0", writes: []string{"resume "}},
		"a resume of nothing":           {f: &fake{spec: spec()}, args: "resume", want: 3, err: "No run is under way"},
		"a pause":                       {f: &fake{spec: spec(), open: run()}, args: "pause", out: "Next: capstan resume", writes: []string{"Pause"}},
		"an abort that ends the run":    {f: &fake{spec: spec(), open: run(), end: ends(true, metav1.ConditionFalse, v1alpha1.ReasonAborted, false)}, args: "abort to-v2", out: "Aborted:", writes: []string{"Abort to-v2"}},
		"an abort of a driven run":      {f: &fake{spec: spec(), open: run(), followErr: problem.Blocked("HeldByAnother", "x")}, args: "abort", out: "ends as soon as", writes: []string{"Abort"}},
		"a status of an idle cluster":   {f: &fake{}, args: "status", out: "Idle"},
		"a status of a paused run":      {f: &fake{open: paused}, args: "status", out: "Paused on the way to v2.0.0"},
		"an empty image catalog":        {f: &fake{}, args: "image list", out: "No image in the catalog"},
		"an image catalog":              {f: &fake{spec: spec()}, args: "image list", out: "http://img/u.raw"},
		"a history without runs":        {f: &fake{}, args: "history", out: "No run yet"},
		"an explanation in any letters": {f: &fake{}, args: "explain " + strings.ToLower(firstCheck()), out: firstCheck()},
		"a version":                     {f: &fake{}, args: "version", out: "capstan "},
		"no command at all":             {f: &fake{}, args: "", out: "Available Commands"},
		"a fault of any other kind":     {f: &fake{draftErr: errors.New("observe: something odd")}, args: "plan rel", want: 1, err: "Error: Observe: something odd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := call(t, tc.f, strings.Fields(tc.args)...)
			if got.exit != tc.want {
				t.Errorf("exit %d, want %d", got.exit, tc.want)
			}
			if !strings.Contains(got.out, tc.out) || (tc.out == "" && got.out != "") {
				t.Errorf("stdout does not say %q:\n%s", tc.out, got.out)
			}
			if !strings.Contains(got.err, tc.err) {
				t.Errorf("stderr does not say %q:\n%s", tc.err, got.err)
			}
			if diff := cmp.Diff(tc.f.writes, tc.writes); diff != "" {
				t.Errorf("writes (-got +want):\n%s", diff)
			}
		})
	}
}

func firstCheck() string { return "CAP-KUBERNETES-RANGE" }

func TestTheLeaseIsGivenBackAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	f := &fake{spec: spec(), interrupt: func() {}, followErr: context.Canceled}
	got := call(t, f, "upgrade", "rel", "--yes")
	if !f.closed || strings.Contains(got.err, "Note:") {
		t.Errorf("closed %t, want true, with a context that lives; stderr:\n%s", f.closed, got.err)
	}
}

func TestJSONAnswers(t *testing.T) {
	t.Parallel()
	stops := ends(false, metav1.ConditionFalse, v1alpha1.ReasonStopped, true, imageStop())
	for name, tc := range map[string]struct {
		f    *fake
		args []string
		// wantKind is the kind on stdout, empty for none; wantReason that of the error on the last line of stderr.
		wantKind, wantReason string
	}{
		"a plan":                        {&fake{spec: spec()}, []string{"plan", "rel"}, "Plan", ""},
		"a blocked plan":                {&fake{spec: spec(blocking())}, []string{"plan", "rel"}, "Plan", "CAP-X"},
		"an upgrade":                    {&fake{spec: spec(), end: completes()}, []string{"upgrade", "rel", "--yes"}, "UpgradeResult", ""},
		"an upgrade with nothing to do": {&fake{spec: nothing()}, []string{"upgrade", "rel", "--yes"}, "UpgradeResult", ""},
		"an upgrade that stops":         {&fake{spec: spec(), end: stops}, []string{"upgrade", "rel", "--yes"}, "UpgradeResult", "ImageNotFound"},
		"a blocked upgrade":             {&fake{spec: spec(blocking())}, []string{"upgrade", "rel", "--yes"}, "", "CAP-X"},
		"a status":                      {&fake{open: run()}, []string{"status"}, "Status", ""},
		"an image catalog":              {&fake{spec: spec()}, []string{"image", "list"}, "ImageList", ""},
		"a history":                     {&fake{}, []string{"history"}, "History", ""},
		"a pause":                       {&fake{spec: spec(), open: run()}, []string{"pause"}, "Notice", ""},
		"a version":                     {&fake{}, []string{"version"}, "Version", ""},
		"a flag that is unknown":        {&fake{}, []string{"plan", "--nope", "rel"}, "", "BadFlag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := call(t, tc.f, append(tc.args, "-o", "json")...)
			var answer struct{ Kind, APIVersion string }
			if got.out != "" {
				if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
					t.Fatalf("stdout is not one JSON object: %v\n%s", err, got.out)
				}
			}
			if answer.Kind != tc.wantKind || (tc.wantKind != "" && answer.APIVersion != "capstan.dev/v1alpha1") {
				t.Errorf("stdout holds kind %q of %q, want %q of capstan.dev/v1alpha1", answer.Kind, answer.APIVersion, tc.wantKind)
			}
			if reason := lastReason(t, got.err); reason != tc.wantReason {
				t.Errorf("stderr ends with the error %q, want %q", reason, tc.wantReason)
			}
		})
	}
}

// lastReason makes sure that every line of stderr is a JSON object, and returns the reason of the error on the last one.
func lastReason(t *testing.T, text string) string {
	t.Helper()
	reason := ""
	for line := range strings.Lines(text) {
		var object struct{ Error struct{ Reason string } }
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("stderr has a line that is not JSON: %v\n%s", err, line)
		}
		reason = object.Error.Reason
	}
	return reason
}

func TestAPIErrorsInTheUsersWords(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "capstan.dev", Resource: "upgrades"}
	for name, tc := range map[string]struct {
		err        error
		wantReason string
		want       string
	}{
		"connection refused": {&url.Error{Op: "Get", URL: "https://h", Err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, "Unreachable", "at https://h:6443 can't be reached: connection refused"},
		"no such host":       {&url.Error{Op: "Get", URL: "https://h", Err: errors.New("no such host")}, "Unreachable", "can't be reached: no such host"},
		"no answer":          {fmt.Errorf("list: %w", context.DeadlineExceeded), "Unreachable", "no answer in time"},
		"wrong credentials":  {apierrors.NewUnauthorized("no"), "Unauthorized", "does not accept the kubeconfig's credentials"},
		"no credentials":     {apierrors.NewForbidden(resource, "", errors.New(`User "system:anonymous" cannot list`)), "Unauthorized", "does not accept"},
		"missing right":      {apierrors.NewForbidden(resource, "", errors.New("no list")), "Forbidden", "upgrades.capstan.dev is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &global{host: "https://h:6443"}
			got := g.translate(t.Context(), fmt.Errorf("observe: %w", tc.err))
			if got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.want) || got.Remedy == "" || got.Exit != problem.ExitError {
				t.Errorf("got %+v, want reason %s, a message with %q, a remedy, exit 1", got, tc.wantReason, tc.want)
			}
		})
	}
}

func TestPromptIsSafeToPaste(t *testing.T) {
	t.Parallel()
	g := &global{kubeconfig: "/tmp/my config", context: "prod"}
	got := g.prompt("upgrade", "rel", "--accept", "CAP-X=it's fine")
	want := `capstan upgrade rel --accept 'CAP-X=it'\''s fine' --kubeconfig '/tmp/my config' --context prod`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
