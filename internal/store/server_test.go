// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

func TestOnAPIServer(t *testing.T) {
	cfg := apitest.Start(t)
	s, err := New(cfg, clock.RealClock{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	// In this order: the first ones look at a cluster without Capstan.
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *Store, cfg *rest.Config)
	}{
		{"before the installation nothing is there and nothing breaks", testEmpty},
		{"the installation is idempotent", testInstall},
		{"a plan is kept once and never changes", testPlans},
		{"runs are kept, listed and changed under lock", testUpgrades},
		{"images are kept once, listed by name, and replaced only as they were read", testImages},
		{"an artifact is kept once, in parts, and repaired", testArtifacts},
		{"one process has the lease", testLeaseExcludes},
		{"a dead holder's lease is taken at once", testLeaseOfTheDead},
		{"a silent holder's lease is taken when it expires", testLeaseExpires},
		{"a holder that renews while we wait keeps the lease", testLeaseRenewedMeanwhile},
		{"of many that want the lease one gets it", testLeaseRace},
		{"a killed process loses its lease at once", testLeaseKill},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s, cfg) })
	}
}

func testEmpty(t *testing.T, s *Store, _ *rest.Config) {
	if runs, err := s.Upgrades(t.Context()); err != nil || len(runs) != 0 {
		t.Errorf("Upgrades: %v, %v; want none", runs, err)
	}
	if _, err := s.Upgrade(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Upgrade: %v, want ErrNotFound", err)
	}
	if images, err := s.NodeImages(t.Context()); err != nil || len(images) != 0 {
		t.Errorf("NodeImages: %v, %v; want none", images, err)
	}
	if _, err := s.NodeImage(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("NodeImage: %v, want ErrNotFound", err)
	}
	if _, err := s.Plan(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Plan: %v, want ErrNotFound", err)
	}
	_, err := s.Get(t.Context(), digestOf(nil))
	wantProblem(t, err, "ArtifactMissing", problem.ExitBlocked)
	if h, err := s.Lease(LeaseOptions{}).Holder(t.Context()); err != nil || h.Text != "" {
		t.Errorf("Holder: %v, %v; want nobody", h, err)
	}
	if err := s.Lease(LeaseOptions{}).Acquire(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("Acquire without a namespace: %v, want ErrNotFound", err)
	}
}

func testInstall(t *testing.T, s *Store, _ *rest.Config) {
	versions := func() map[string]string {
		out := map[string]string{}
		objects, err := installed()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range objects {
			got := &unstructured.Unstructured{}
			got.SetGroupVersionKind(want.GroupVersionKind())
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
				t.Fatal(err)
			}
			out[got.GetName()] = got.GetResourceVersion()
		}
		return out
	}
	if err := s.Install(t.Context()); err != nil {
		t.Fatalf("Install: %v", err)
	}
	if _, err := s.Upgrades(t.Context()); err != nil {
		t.Errorf("right after the installation: %v", err)
	}
	// Once more, so that the API server's own controllers are done with the conditions of new CRDs.
	if err := s.Install(t.Context()); err != nil {
		t.Fatalf("Install: %v", err)
	}
	before := versions()
	if len(before) != 5 {
		t.Errorf("installed %v, want four CRDs and the namespace", before)
	}
	if err := s.Install(t.Context()); err != nil {
		t.Fatalf("Install again: %v", err)
	}
	if diff := cmp.Diff(versions(), before); diff != "" {
		t.Errorf("the second installation wrote:\n%s", diff)
	}
}

func plan(digest string) *v1alpha1.Plan {
	return &v1alpha1.Plan{Spec: v1alpha1.PlanSpec{
		Kind: v1alpha1.PlanPlatform, Digest: digest, Forecast: v1alpha1.Forecast{Basis: "none"},
		Release: v1alpha1.ReleaseReference{Name: "r", Version: "v1.0.0", Digest: digestOf(nil)},
	}}
}

func testPlans(t *testing.T, s *Store, _ *rest.Config) {
	digest := digestOf([]byte("plan"))
	first, err := s.CreatePlan(t.Context(), plan(digest))
	if err != nil {
		t.Fatalf("CreatePlan: %v", err)
	}
	second, err := s.CreatePlan(t.Context(), plan(digest))
	if err != nil {
		t.Fatalf("CreatePlan again: %v", err)
	}
	if first.Name != PlanName(digest) || second.UID != first.UID || first.UID == "" {
		t.Errorf("got %s %s, then %s %s", first.Name, first.UID, second.Name, second.UID)
	}
	read, err := s.Plan(t.Context(), first.Name)
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	if diff := cmp.Diff(read.Spec, plan(digest).Spec, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
	read.Spec.Release.Version = "v2.0.0"
	if err := s.client.Update(t.Context(), read); err == nil || !strings.Contains(err.Error(), "a plan never changes") {
		t.Errorf("change of a plan: error is %v", err)
	}
	_, err = s.CreatePlan(t.Context(), plan(digest[:len("sha256:")+16]+strings.Repeat("0", 48)))
	wantProblem(t, err, "PlanNameTaken", problem.ExitBlocked)
	if _, err := s.CreatePlan(t.Context(), plan("")); err == nil {
		t.Error("a plan without a digest was kept")
	}
}

func testUpgrades(t *testing.T, s *Store, _ *rest.Config) {
	ctx := t.Context()
	for _, name := range []string{"run-1", "run-3", "run-2"} {
		_, err := s.CreateUpgrade(ctx, &v1alpha1.Upgrade{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.UpgradeSpec{
				Plan: "p", To: "v1.0.0", Intent: v1alpha1.IntentRun, StallLimit: metav1.Duration{Duration: time.Minute},
			},
		})
		if err != nil {
			t.Fatalf("CreateUpgrade: %v", err)
		}
	}
	if _, err := s.CreateUpgrade(ctx, &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Name: "run-1"},
		Spec:       v1alpha1.UpgradeSpec{Plan: "p", To: "v1.0.0", Intent: v1alpha1.IntentRun},
	}); !errors.Is(err, ErrConflict) {
		t.Errorf("a second run of that name: %v, want ErrConflict", err)
	}
	runs, err := s.Upgrades(ctx)
	if err != nil || len(runs) != 3 {
		t.Fatalf("Upgrades: %d runs, %v", len(runs), err)
	}

	reader, err := s.Upgrade(ctx, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	writer := reader.DeepCopy()
	writer.Status.Holder = "writer"
	if err := s.UpdateStatus(ctx, writer); err != nil {
		t.Fatalf("UpdateStatus: %v", err)
	}
	writer.Status.Holder = "writer, again"
	if err := s.UpdateStatus(ctx, writer); err != nil {
		t.Errorf("UpdateStatus of what was just written: %v", err)
	}
	reader.Status.Holder = "reader"
	if err := s.UpdateStatus(ctx, reader); !errors.Is(err, ErrConflict) {
		t.Errorf("UpdateStatus of an old state: %v, want ErrConflict", err)
	}

	calls := 0
	changed, err := s.ChangeSpec(ctx, "run-1", func(spec *v1alpha1.UpgradeSpec) error {
		if calls++; calls == 1 { // the driver writes its status between our read and our write
			writer.Status.Holder = "writer, in between"
			return s.UpdateStatus(ctx, writer)
		}
		spec.Intent, spec.Resumes = v1alpha1.IntentPause, spec.Resumes+1
		return nil
	})
	// The first call changed nothing, so nothing was to be written, and the second call never came.
	if err != nil || calls != 1 || changed.Spec.Resumes != 0 {
		t.Fatalf("ChangeSpec without a change: %d calls, resumes %d, %v", calls, changed.Spec.Resumes, err)
	}
	calls = 0
	changed, err = s.ChangeSpec(ctx, "run-1", func(spec *v1alpha1.UpgradeSpec) error {
		if calls++; calls == 1 {
			writer.Status.Holder = "writer, once more"
			if err := s.UpdateStatus(ctx, writer); err != nil {
				return err
			}
		}
		spec.Intent, spec.Resumes = v1alpha1.IntentPause, spec.Resumes+1
		return nil
	})
	if err != nil || calls != 2 {
		t.Fatalf("ChangeSpec: %d calls, %v", calls, err)
	}
	got := fmt.Sprint(changed.Spec.Intent, changed.Spec.Resumes, changed.Status.Holder)
	if want := fmt.Sprint(v1alpha1.IntentPause, 1, "writer, once more"); got != want {
		t.Errorf("after the change %s, want %s", got, want)
	}
	errNo := errors.New("no")
	if _, err := s.ChangeSpec(ctx, "run-1", func(*v1alpha1.UpgradeSpec) error { return errNo }); !errors.Is(err, errNo) {
		t.Errorf("ChangeSpec that declines: %v", err)
	}
	if _, err := s.ChangeSpec(ctx, "run-1", func(spec *v1alpha1.UpgradeSpec) error { spec.Plan = "q"; return nil }); err == nil {
		t.Error("a run got another plan")
	}
	if _, err := s.ChangeSpec(ctx, "none", func(*v1alpha1.UpgradeSpec) error { return nil }); !errors.Is(err, ErrNotFound) {
		t.Errorf("ChangeSpec of a missing run: %v, want ErrNotFound", err)
	}
}

func testArtifacts(t *testing.T, s *Store, _ *rest.Config) {
	ctx := t.Context()
	data := noise(2 << 20) // does not compress: three Secrets
	digest, err := s.Put(ctx, data)
	if err != nil {
		t.Fatalf("Put: %v", err)
	}
	secrets := func() []corev1.Secret {
		var list corev1.SecretList
		if err := s.client.List(ctx, &list, client.InNamespace(v1alpha1.Namespace), client.HasLabels{ArtifactLabel}); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	first := secrets()
	if len(first) != 3 {
		t.Fatalf("%d Secrets, want 3", len(first))
	}
	if again, err := s.Put(ctx, data); err != nil || again != digest {
		t.Errorf("Put again: %s, %v", again, err)
	}
	if diff := cmp.Diff(versions(secrets()), versions(first)); diff != "" {
		t.Errorf("the second Put wrote:\n%s", diff)
	}
	get := func(what string) {
		t.Helper()
		if got, err := s.Get(ctx, digest); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: Get gives %d bytes, %v", what, len(got), err)
		}
	}
	get("after Put")

	if err := s.client.Delete(ctx, &first[1]); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(ctx, digest)
	wantProblem(t, err, "ArtifactMissing", problem.ExitBlocked)
	if _, err := s.Put(ctx, data); err != nil {
		t.Errorf("Put after a loss: %v", err)
	}
	get("after the repair of a lost part")

	bad := first[2].DeepCopy()
	if err := s.client.Delete(ctx, &first[2]); err != nil {
		t.Fatal(err)
	}
	bad.ResourceVersion, bad.UID = "", ""
	bad.Data[artifactKey][100] ^= 1
	if err := s.client.Create(ctx, bad); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(ctx, digest)
	wantProblem(t, err, "ArtifactDamaged", problem.ExitBlocked)
	if _, err := s.Put(ctx, data); err != nil {
		t.Errorf("Put over damage: %v", err)
	}
	get("after the repair of a damaged part")

	bad.Data[artifactKey][100] ^= 1
	if err := s.client.Update(ctx, bad); err == nil {
		t.Error("an artifact could be changed in place")
	}
}

// versions lists the Secrets with their resource versions.
func versions(secrets []corev1.Secret) []string {
	var out []string
	for _, s := range secrets {
		out = append(out, s.Name+" "+s.ResourceVersion)
	}
	return out
}

// leapingClock is a clock on which waiting takes no time: whoever waits moves it on.
type leapingClock struct {
	*testingclock.FakeClock
	onWait func()
}

func (c *leapingClock) After(d time.Duration) <-chan time.Time {
	if c.onWait != nil {
		c.onWait()
	}
	c.Step(d)
	out := make(chan time.Time, 1)
	out <- c.Now()
	return out
}

// process is one of two that want the lease. Their clocks are years apart: nothing may depend on that.
func process(t *testing.T, cfg *rest.Config, id Identity, alive map[int]bool) (*Lease, *leapingClock) {
	t.Helper()
	clk := &leapingClock{FakeClock: testingclock.NewFakeClock(time.Date(2026+id.PID, 1, 1, 0, 0, 0, 0, time.UTC))}
	s, err := New(cfg, clk)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for pid := range alive {
		files[fmt.Sprintf("%d/stat", pid)] = stat(fmt.Sprint(pid), "S", fmt.Sprint(pid*100))
	}
	proc := Proc{FS: files, Exists: func(pid int) bool { return alive[pid] }}
	return s.Lease(LeaseOptions{Identity: id, Proc: proc}), clk
}

func here(pid int) Identity {
	return Identity{User: "ada", Host: "box", PID: pid, Namespace: "1", Boot: "b", Start: uint64(pid) * 100}
}

func elsewhere(pid int) Identity {
	id := here(pid)
	id.Host, id.Boot = "far", "other"
	return id
}

func forget(t *testing.T, cfg *rest.Config) {
	t.Helper()
	s, err := New(cfg, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: LeaseName}}
	if err := client.IgnoreNotFound(s.client.Delete(t.Context(), lease)); err != nil {
		t.Fatal(err)
	}
}

func testLeaseExcludes(t *testing.T, _ *Store, cfg *rest.Config) {
	forget(t, cfg)
	alive := map[int]bool{1: true, 2: true}
	a, clockA := process(t, cfg, here(1), alive)
	b, clockB := process(t, cfg, here(2), alive)
	clockB.SetTime(clockA.Now()) // one machine, one clock
	if err := a.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	start := clockB.Now()
	err := b.Acquire(t.Context())
	wantProblem(t, err, "HeldByAnother", problem.ExitBlocked)
	held, ok := errors.AsType[*HeldError](err)
	if !ok {
		t.Fatalf("error is %T, want a HeldError inside", err)
	}
	want := Holder{Text: here(1).String(), Identity: here(1), Known: true, Since: clockA.Now(), Renewed: clockA.Now()}
	if diff := cmp.Diff(held.Holder, want, cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
		t.Errorf("holder, got -, want +:\n%s", diff)
	}
	if !strings.Contains(err.Error(), "ada@box, process 1, since 2027-01-01T00:00:00Z") {
		t.Errorf("message is %q", err)
	}
	if !clockB.Now().Equal(start) {
		t.Error("it waited although it sees the holder living")
	}
	if b.Valid() || !a.Valid() {
		t.Errorf("valid: a %t, b %t", a.Valid(), b.Valid())
	}

	if err := a.Hold(t.Context()); err != nil {
		t.Errorf("Hold by the holder: %v", err)
	}
	clockA.Step(a.Interval())
	if err := a.Hold(t.Context()); err != nil {
		t.Errorf("Hold by the holder when it is time to renew: %v", err)
	}
	if h, err := b.Holder(t.Context()); err != nil || !h.Renewed.Equal(clockA.Now()) {
		t.Errorf("renewed at %s, want %s (%v)", h.Renewed, clockA.Now(), err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
	if err := b.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire after the release: %v", err)
	}
	if err := a.Renew(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("Renew after the release: %v, want ErrLost", err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Errorf("Release of what is not ours: %v", err)
	}
	if h, err := a.Holder(t.Context()); err != nil || h.Identity.PID != 2 {
		t.Errorf("holder is %v, %v; want process 2", h, err)
	}
}

func testLeaseOfTheDead(t *testing.T, _ *Store, cfg *rest.Config) {
	forget(t, cfg)
	alive := map[int]bool{1: true, 2: true}
	a, _ := process(t, cfg, here(1), alive)
	b, clockB := process(t, cfg, here(2), alive)
	if err := a.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	delete(alive, 1)
	start := clockB.Now()
	if err := b.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire from the dead: %v", err)
	}
	if !clockB.Now().Equal(start) {
		t.Errorf("it waited %s for a dead process", clockB.Since(start))
	}
	if err := a.Renew(t.Context()); !errors.Is(err, ErrLost) || a.Valid() {
		t.Errorf("Renew by the one that was taken for dead: %v, valid %t; want ErrLost", err, a.Valid())
	}
}

func testLeaseExpires(t *testing.T, _ *Store, cfg *rest.Config) {
	forget(t, cfg)
	a, _ := process(t, cfg, elsewhere(1), nil)
	b, clockB := process(t, cfg, here(2), map[int]bool{2: true})
	if err := a.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	start := clockB.Now()
	if err := b.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire after silence: %v", err)
	}
	if waited := clockB.Since(start); waited < LeaseDuration || waited > LeaseDuration+leasePoll {
		t.Errorf("it waited %s, want %s", waited, LeaseDuration)
	}
	err := a.Renew(t.Context())
	if held, ok := errors.AsType[*HeldError](err); !ok || !errors.Is(err, ErrLost) || held.Holder.Identity.PID != 2 {
		t.Errorf("Renew by the silent one: %v, want ErrLost that names process 2", err)
	}

	forget(t, cfg)
	if err := b.Renew(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("Renew of a deleted lease: %v, want ErrLost", err)
	}
}

func testLeaseRenewedMeanwhile(t *testing.T, _ *Store, cfg *rest.Config) {
	forget(t, cfg)
	a, clockA := process(t, cfg, elsewhere(1), nil)
	b, clockB := process(t, cfg, here(2), map[int]bool{2: true})
	if err := a.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	polls := 0
	clockB.onWait = func() {
		if polls++; polls == 9 {
			clockA.Step(a.Interval())
			if err := a.Renew(t.Context()); err != nil {
				t.Errorf("Renew: %v", err)
			}
		}
	}
	wantProblem(t, b.Acquire(t.Context()), "HeldByAnother", problem.ExitBlocked)
	if polls != 9 {
		t.Errorf("it looked %d times, want 9: the first change decides", polls)
	}
	if !a.Valid() {
		t.Error("the holder lost its lease")
	}

	ctx, cancel := context.WithCancel(t.Context())
	clockB.onWait = cancel
	if err := b.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a cancelled context: %v", err)
	}
}

func testLeaseRace(t *testing.T, _ *Store, cfg *rest.Config) {
	forget(t, cfg)
	const processes = 8
	alive := map[int]bool{}
	for pid := 1; pid <= processes; pid++ {
		alive[pid] = true
	}
	results := make(chan error, processes)
	for pid := 1; pid <= processes; pid++ {
		l, clk := process(t, cfg, here(pid), alive)
		clk.SetTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		go func() { results <- l.Acquire(t.Context()) }()
	}
	got := 0
	for range processes {
		err := <-results
		if err == nil {
			got++
			continue
		}
		wantProblem(t, err, "HeldByAnother", problem.ExitBlocked)
	}
	if got != 1 {
		t.Errorf("%d processes have the lease, want 1", got)
	}
}
