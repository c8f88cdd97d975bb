// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestGapsCountOnlyTimeWithoutAController(t *testing.T) {
	t.Parallel()
	const a, b = "bootstrap-kubeadm", "cluster-api"
	set := func(names ...string) map[string]bool {
		out := map[string]bool{}
		for _, n := range names {
			out[n] = true
		}
		return out
	}
	both := &sample{running: set(a, b), leading: set(a, b)}
	first := &sample{running: set(a), leading: set(a)}
	none := &sample{}
	waits := &sample{running: set(a, b), leading: set(a)}
	type want struct {
		Stopped, Leaderless map[string]time.Duration
		All, Blind          time.Duration
		Open                bool
	}
	zero := map[string]time.Duration{a: 0, b: 0}
	tests := map[string]struct {
		// samples are a second apart; nil is one that could not be made.
		samples []*sample
		want    want
	}{
		"a provider that always runs has no gap": {
			samples: []*sample{both, both},
			want:    want{Stopped: zero, Leaderless: zero},
		},
		"a gap of one provider is not a gap of all": {
			samples: []*sample{both, first, first, both},
			want:    want{Stopped: map[string]time.Duration{a: 0, b: 2 * time.Second}, Leaderless: map[string]time.Duration{a: 0, b: 2 * time.Second}},
		},
		"a controller that waits for its lease runs and does not lead": {
			samples: []*sample{both, waits},
			want:    want{Stopped: zero, Leaderless: map[string]time.Duration{a: 0, b: time.Second}, Open: true},
		},
		"time in which nothing runs counts for each and for all": {
			samples: []*sample{both, none, none, first},
			want: want{
				Stopped:    map[string]time.Duration{a: 2 * time.Second, b: 3 * time.Second},
				Leaderless: map[string]time.Duration{a: 2 * time.Second, b: 3 * time.Second},
				All:        2 * time.Second, Open: true,
			},
		},
		"time in which nothing can be seen counts as neither": {
			samples: []*sample{both, nil, both},
			want:    want{Stopped: zero, Leaderless: zero, Blind: time.Second},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			g := newGaps([]string{a, b}, at)
			for _, s := range tt.samples {
				at = at.Add(time.Second)
				if s == nil {
					g.miss(at)
					continue
				}
				g.add(at, *s)
			}
			got := want{Stopped: g.stopped, Leaderless: g.leaderless, All: g.all, Blind: g.blind, Open: g.open}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestALeaderIsAReadyPodThatHoldsALease(t *testing.T) {
	t.Parallel()
	pod := func(namespace, name, provider, ready string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{providerLabel: provider}},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
		}}
	}
	lease := func(namespace, holder string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": "election"}, "spec": map[string]any{"holderIdentity": holder},
		}}
	}
	got := judge(
		[]unstructured.Unstructured{
			pod("capi-system", "manager-new", "cluster-api", "True"), pod("capd-system", "capd-1", "docker", "True"), pod("kcp-system", "kcp-1", "kcp", "False"),
		},
		[]unstructured.Unstructured{lease("capi-system", "manager-old_1"), lease("capd-system", "capd-1_2"), lease("kcp-system", "kcp-1_3"), lease("other", "capd-1_4")},
	)
	want := sample{running: map[string]bool{"cluster-api": true, "docker": true}, leading: map[string]bool{"docker": true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadyIsAPodThatServesAndStays(t *testing.T) {
	t.Parallel()
	condition := func(status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}}
	}
	tests := map[string]struct {
		pod  map[string]any
		want bool
	}{
		"a ready Pod":                  {pod: map[string]any{"status": condition("True")}, want: true},
		"a Pod that is not ready":      {pod: map[string]any{"status": condition("False")}},
		"a Pod without status":         {pod: map[string]any{}},
		"a ready Pod on its way out":   {pod: map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": condition("True")}},
		"a Pod with a broken status":   {pod: map[string]any{"status": map[string]any{"conditions": "none"}}},
		"a Pod with another condition": {pod: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Initialized", "status": "True"}}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ready(&unstructured.Unstructured{Object: tt.pod}); got != tt.want {
				t.Errorf("ready is %t, want %t", got, tt.want)
			}
		})
	}
}

func TestReportComparesMedians(t *testing.T) {
	t.Parallel()
	results := []result{
		{Tool: toolClusterctl, Run: 1, Seconds: 60, Working: 70, Stopped: map[string]float64{"a": 10, "b": 30}, Leaderless: map[string]float64{"a": 10, "b": 30}, AllDown: 5, Machines: 6, Unchanged: 6},
		{Tool: toolCapstan, Run: 1, Seconds: 20, Working: 30, Stopped: map[string]float64{"a": 0, "b": 0}, Leaderless: map[string]float64{"a": 0, "b": 0}, Machines: 6, Unchanged: 6},
		{Tool: toolCapstan, Run: 2, Seconds: 24, Working: 34, Stopped: map[string]float64{"a": 0, "b": 0}, Leaderless: map[string]float64{"a": 0, "b": 0}, Machines: 6, Unchanged: 6},
		{Tool: toolClusterctl, Run: 2, Seconds: 90, Working: 100, Stopped: map[string]float64{"a": 12, "b": 28}, Leaderless: map[string]float64{"a": 12, "b": 28}, AllDown: 7, Machines: 6, Unchanged: 6},
		{Tool: toolClusterctl, Run: 3, Seconds: 50, Working: 60, Stopped: map[string]float64{"a": 14, "b": 20}, Leaderless: map[string]float64{"a": 14, "b": 20}, AllDown: 6, Machines: 6, Unchanged: 6},
		{Tool: toolCapstan, Run: 3, Seconds: 90, Working: 100, Stopped: map[string]float64{"a": 0, "b": 1}, Leaderless: map[string]float64{"a": 0, "b": 1}, Machines: 6, Unchanged: 5},
	}
	r := newReport(options{from: "v1", to: "v2"}, results)
	if diff := cmp.Diff(comparison{Clusterctl: 60, Capstan: 24, Ratio: 0.4}, r.Command); diff != "" {
		t.Errorf("command, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(comparison{Clusterctl: 70, Capstan: 34, Ratio: 34.0 / 70}, r.Working); diff != "" {
		t.Errorf("working, -want +got:\n%s", diff)
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 of 6", "30.0 s", "Ratio of the medians, capstan to clusterctl: 0.40 for the command, 0.49 until all controllers lead\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestMedianOfAnEvenNumberIsTheMeanOfTheMiddle(t *testing.T) {
	t.Parallel()
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median is %v, want 2.5", got)
	}
}

func TestReportShowsPlansBesideLists(t *testing.T) {
	t.Parallel()
	r := newReport(options{from: "v1", to: "v2"}, nil)
	r.Plans = []planResult{
		{Run: 1, PlainSeconds: 10, PlanSeconds: 12, PlainMemory: 1000 << 20, PlanMemory: 200 << 20, Objects: 21302, Kinds: 537},
		{Run: 2, PlainSeconds: 12, PlanSeconds: 30, PlainMemory: 1000 << 20, PlanMemory: 300 << 20, Objects: 21302, Kinds: 537},
		{Run: 3, PlainSeconds: 11, PlanSeconds: 16.5, PlainMemory: 1000 << 20, PlanMemory: 250 << 20, Objects: 21302, Kinds: 537},
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"21302 objects of 537 kinds", "2.50", "median  11.0 s", "A plan takes 1.50 times as long as the list (wanted: at most 2) and at most 300 MiB of memory (wanted: under 512 MiB)\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "clusterctl") {
		t.Errorf("the report tells of upgrades that were not measured:\n%s", out.String())
	}
}

func TestObjectsAreListedInTheVersionThatNeedsNoConversion(t *testing.T) {
	t.Parallel()
	version := func(name string, served, storage bool) any {
		return map[string]any{"name": name, "served": served, "storage": storage}
	}
	for name, tt := range map[string]struct {
		versions []any
		want     string
	}{
		"the stored one":                {[]any{version("v1", true, false), version("v2", true, true)}, "v2"},
		"the stored one comes first":    {[]any{version("v2", true, true), version("v1", true, false)}, "v2"},
		"another if that is not served": {[]any{version("v1", true, false), version("v2", false, true)}, "v1"},
		"none where nothing is served":  {[]any{version("v1", false, true)}, ""},
	} {
		crd := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": "g", "names": map[string]any{"plural": "things"}, "versions": tt.versions}}}
		if got := resourceOf(&crd); got.Version != tt.want || got.Group != "g" || got.Resource != "things" {
			t.Errorf("%s: %v, want version %q", name, got, tt.want)
		}
	}
}
