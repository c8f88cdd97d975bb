// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// life is a host in faked time.
type life struct {
	host  Host
	world World
	log   []string
}

const (
	goodURL = "http://images.example.com/a.qcow2"
	goodSum = "aaaa"
)

func newLife() *life {
	return &life{
		host: Host{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u"},
			Spec:       Spec{BMC: BMC{Address: "redfish://192.0.2.1", CredentialsName: "c"}, Online: true},
		},
		world: World{
			Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), CredentialsFound: true,
			Images: []KnownImage{{URL: goodURL, SHA256: goodSum}, {URL: "http://images.example.com/b.qcow2", SHA256: "bbbb"}},
		},
	}
}

// pass lets time pass, and notes each change of state or error.
func (l *life) pass(limit time.Duration) {
	for end := l.world.Now.Add(limit); l.world.Now.Before(end); {
		next, again, done := Step(l.host, l.world)
		if mark := line(next); mark != line(l.host.Status) {
			l.log = append(l.log, mark)
		}
		l.host.Status = next
		switch {
		case done:
			l.log = append(l.log, "gone")
			return
		case again == 0:
			l.world.Now = end
		default:
			l.world.Now = l.world.Now.Add(again)
		}
	}
}

func line(s Status) string {
	text := string(s.Provisioning.State)
	if s.ErrorMessage != "" {
		text += fmt.Sprintf(" [%s]", s.ErrorType)
	}
	return text
}

func TestLifeOfAHost(t *testing.T) {
	t.Parallel()
	good := &Image{URL: goodURL, Checksum: goodSum, ChecksumType: "sha256"}
	cases := map[string]struct {
		live func(*life)
		want string
	}{
		"a new host is registered, inspected and available": {
			func(l *life) { l.pass(time.Minute) },
			"registering, inspecting, preparing, available",
		},
		"without a BMC it stays unmanaged": {
			func(l *life) { l.host.Spec.BMC = BMC{}; l.pass(time.Minute) },
			"unmanaged",
		},
		"without credentials it stays where it is": {
			func(l *life) { l.world.CredentialsFound = false; l.pass(time.Minute) },
			"registering, registering [registration error]",
		},
		"a machine on it and off again": {
			func(l *life) {
				l.pass(time.Minute)
				l.log = nil
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.host.Spec.Image = nil
				l.pass(time.Minute)
			},
			"provisioning, provisioned, deprovisioning, available",
		},
		"another checksum alone does not reprovision": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.host.Spec.Image = &Image{URL: goodURL, Checksum: "other"}
				l.pass(time.Minute)
			},
			"",
		},
		"another address does": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.host.Spec.Image = &Image{URL: "http://images.example.com/b.qcow2", Checksum: "bbbb"}
				l.pass(time.Minute)
			},
			"deprovisioning, available, provisioning, provisioned",
		},
		"a wrong checksum is tried five times and no more": {
			func(l *life) {
				l.pass(time.Minute)
				l.log = nil
				l.host.Spec.Image = &Image{URL: goodURL, Checksum: "wrong"}
				l.pass(time.Hour)
			},
			strings.Repeat("provisioning, provisioning [provisioning error], deprovisioning, available, ", 5) + "available [provisioning error]",
		},
		"a corrected image is taken after that": {
			func(l *life) {
				l.host.Spec.Image = &Image{URL: goodURL, Checksum: "wrong"}
				l.pass(time.Hour)
				l.log = nil
				l.host.Spec.Image = good
				l.pass(time.Minute)
			},
			"provisioning, provisioned",
		},
		"deprovisioning that is stuck says nothing": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.world.Settings.Fail = []Failure{FailDeprovision}
				l.host.Spec.Image = nil
				l.pass(time.Hour)
			},
			"deprovisioning",
		},
		"cleaning that fails goes on failing": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.world.Settings.Fail = []Failure{FailClean}
				l.host.Spec.Image = nil
				l.pass(time.Hour)
			},
			"deprovisioning, deprovisioning [provisioning error]",
		},
		"without cleaning there is nothing to fail": {
			func(l *life) {
				l.host.Spec.Image, l.host.Spec.AutomatedCleaningMode = good, "disabled"
				l.pass(time.Minute)
				l.log = nil
				l.world.Settings.Fail = []Failure{FailClean}
				l.host.Spec.Image = nil
				l.pass(time.Hour)
			},
			"deprovisioning, available",
		},
		"a BMC that is away holds everything, and comes back": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.world.Settings.Fail = []Failure{FailBMC}
				l.host.Spec.Image = nil
				l.pass(time.Hour)
				l.world.Settings.Fail = nil
				l.pass(time.Minute)
			},
			"provisioned [provisioned registration error], deprovisioning, available",
		},
		"power that fails is an error until it is back": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.world.Settings.Fail = []Failure{FailPower}
				l.pass(time.Minute)
				l.world.Settings.Fail = nil
				l.pass(time.Minute)
			},
			"provisioned [power management error], provisioned",
		},
		"a paused host does nothing": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.host.Annotations = map[string]string{PausedAnnotation: ""}
				l.host.Spec.Image = nil
				l.pass(time.Hour)
			},
			"",
		},
		"an image that is taken away while it is written is not": {
			func(l *life) {
				l.pass(time.Minute)
				l.log = nil
				l.host.Spec.Image = good
				l.pass(time.Second)
				l.host.Spec.Image = nil
				l.pass(time.Minute)
			},
			"provisioning, deprovisioning, available",
		},
		"a deleted host is deprovisioned first": {
			func(l *life) {
				l.host.Spec.Image = good
				l.pass(time.Minute)
				l.log = nil
				l.host.DeletionTimestamp = &metav1.Time{Time: l.world.Now}
				l.pass(time.Minute)
			},
			"deprovisioning, powering off before delete, deleting, gone",
		},
		"what somebody else provisioned is left alone": {
			func(l *life) { l.host.Spec.ExternallyProvisioned = true; l.pass(time.Minute) },
			"registering, externally provisioned",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife()
			tc.live(l)
			if diff := cmp.Diff(strings.Join(l.log, ", "), tc.want); diff != "" {
				t.Errorf("states (-got +want):\n%s", diff)
			}
		})
	}
}

// TestAStepThatChangesNothingIsTheSame makes sure that a host at rest is not written again and again.
func TestAStepThatChangesNothingIsTheSame(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.host.Spec.Image = &Image{URL: goodURL, Checksum: goodSum}
	l.pass(time.Minute)
	l.world.Now = l.world.Now.Add(time.Hour)
	next, _, _ := Step(l.host, l.world)
	if diff := cmp.Diff(next, l.host.Status); diff != "" {
		t.Errorf("status (-got +want):\n%s", diff)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	d := func(v time.Duration) *metav1.Duration { return &metav1.Duration{Duration: v} }
	got := Settings{Provision: d(7 * time.Second), Slow: true}.Times(Settings{Provision: d(time.Second), Boot: d(3 * time.Second)})
	want := Times{
		Register: 3 * time.Second, Inspect: 7 * time.Second, Provision: 70 * time.Second, Deprovision: 10 * time.Second,
		Clean: 10 * time.Second, Boot: 30 * time.Second,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("times (-got +want):\n%s", diff)
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text    string
		wantErr string
	}{
		"nothing is the default":        {"", ""},
		"a failure that is known":       {`{"fail":["bmc"]}`, ""},
		"a failure that does not exist": {`{"fail":["fire"]}`, `no failure "fire"`},
		"what is not JSON":              {"slow", "read host settings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseSettings(tc.text)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}
