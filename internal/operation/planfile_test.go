// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/store"
	"github.com/capstan-dev/capstan/internal/world"
)

// savedDraft is a plan of a release with a manifest and a provider.
func savedDraft(t *testing.T) *Draft {
	t.Helper()
	app := v1alpha1.Component{
		Name: "app", Type: v1alpha1.ComponentManifest, Version: "v1.1.0", Source: v1alpha1.Source{Path: "app.yaml"}, Variables: map[string]string{"EMPTY": ""},
	}
	capx := v1alpha1.Component{
		Name: "capx", Type: v1alpha1.ComponentProvider, Version: "v1.1.0", Source: v1alpha1.Source{Path: "capx.yaml"}, Needs: []string{"app"},
		Provider: &v1alpha1.ProviderIdentity{Name: "capx", Type: "InfrastructureProvider", Namespace: "capx-system"},
	}
	var rendered []*release.Rendered
	for c, text := range map[*v1alpha1.Component]string{
		&app:  "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: app}\nstringData: {a: 'x${EMPTY}', number: '1'}\n",
		&capx: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: capx-system}\ndata: {a: b}\n",
	} {
		r, err := release.Render(*c, []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		rendered = append(rendered, r)
	}
	b, err := release.NewBundle(&v1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.ReleaseSpec{Version: "v1.1.0", Components: []v1alpha1.Component{app, capx}},
	}, rendered)
	if err != nil {
		t.Fatal(err)
	}
	b.Skipped = []release.Skipped{{Component: "capx", Version: "v1.2.0", Taken: "v1.1.0", Reason: "it is not whole"}}
	d, err := drafted(plan.Input{Bundle: b, World: &world.World{
		Management: world.Management{UID: "u", KubernetesVersion: "v1.36.3"}, Sets: map[string]world.Set{}, Survey: &world.Survey{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d.earlier = map[string]*settings.Earlier{"app": {Source: "run x", Objects: b.Components[0].Objects, Kept: []v1alpha1.KeptSetting{{Setting: "replicas"}}}}
	d.options = DraftOptions{AllowPrerelease: true, KeepSettings: true, Diff: true}
	return d
}

func saved(t *testing.T, d *Draft) (*PlanFile, []byte) {
	t.Helper()
	data, err := d.Save(SaveOptions{By: "me", Capstan: "v1", Source: "rel", At: metav1.NewTime(time.Unix(1, 500)), Accepted: []v1alpha1.AcceptedFinding{{ID: "CAP-X", Reason: "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadPlanFile("file", data)
	if err != nil {
		t.Fatal(err)
	}
	return f, data
}

func TestASavedPlanIsReadAsItWas(t *testing.T) {
	t.Parallel()
	d := savedDraft(t)
	f, data := saved(t, d)
	b, err := f.bundle()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, d.Bundle); diff != "" {
		t.Errorf("the release, got -, want +:\n%s", diff)
	}
	if len(b.Components[0].Blanks) != 1 {
		t.Errorf("the empty variable is forgotten: %v", b.Components[0].Blanks)
	}
	earlier, err := f.earlier()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(earlier, d.earlier); diff != "" {
		t.Errorf("the earlier manifests, got -, want +:\n%s", diff)
	}
	if diff := cmp.Diff(&f.Plan, d.Spec); diff != "" {
		t.Errorf("the plan, got -, want +:\n%s", diff)
	}
	if !f.Options.AllowPrerelease || !f.Options.KeepSettings || f.Options.Diff {
		t.Errorf("the options are %+v", f.Options)
	}
	if strings.Contains(string(data), "number") {
		t.Error("manifests can be read in the file, which may hold Secrets")
	}
}

func TestResumingASavedPlan(t *testing.T) {
	t.Parallel()
	now := savedDraft(t)
	f, _ := saved(t, now)
	d, err := f.resume(now)
	if err != nil || d.Spec != &f.Plan || d.Own {
		t.Errorf("resume returned %v, the saved plan %t, own %t", err, d.Spec == &f.Plan, d.Own)
	}

	moved := *now
	moved.snapshot.Newest = "run-2"
	_, err = f.resume(&moved)
	m, ok := errors.AsType[*MovedError](err)
	if !ok || problem.ExitOf(err) != problem.ExitBlocked {
		t.Fatalf("resume returned %v, want that it is blocked", err)
	}
	if diff := cmp.Diff(m.Moved, []string{"run run-2 was made"}); diff != "" {
		t.Errorf("moved, got -, want +:\n%s", diff)
	}

	// Its own run may go on.
	moved.Open = &v1alpha1.Upgrade{Spec: v1alpha1.UpgradeSpec{Plan: store.PlanName(f.Plan.Digest)}}
	if d, err = f.resume(&moved); err != nil || !d.Own {
		t.Errorf("resume returned %v, own %t, want to go on with its own run", err, d != nil && d.Own)
	}
}

func TestRunsInOneSecondHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := &Session{clock: clocktesting.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))}
	spec := &v1alpha1.PlanSpec{Release: v1alpha1.ReleaseReference{Version: "v1.2.0+build"}}
	const first = "to-v1.2.0-build-20260701-120000"
	for newest, want := range map[string]string{"": first, "to-v1.2.0-build-20260701-115959": first, first: first + "-2", first + "-2": first + "-3", first + "-9": first + "-10"} {
		if got := s.runName(spec, newest); got != want {
			t.Errorf("after %q comes %q, want %q", newest, got, want)
		}
	}
}
