// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// stampPrecision is how exact the times of a run's journal are: the API stores whole seconds.
const stampPrecision = time.Second

// Probe is what the calls to one workload cluster's API server gave.
type Probe struct {
	Cluster    string          `json:"cluster"`
	Total      int64           `json:"total"`
	Failed     int64           `json:"failed"`
	LongestGap metav1.Duration `json:"longestGap"`
	Gaps       []ProbeGap      `json:"gaps,omitempty"`
}

// ProbeGap is a time without an answer.
type ProbeGap struct {
	// Text is when, for how long, and the error.
	Text string `json:"text"`
	// During are the summaries of the run's steps that were going on. That is a coincidence in time; it is the likely
	// cause where a cluster's API server lives in a component that was swapped.
	During []string `json:"during,omitempty"`
}

// probesOf explains the gaps of the probes by the steps that were going on.
func probesOf(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec) []Probe {
	if run.Status.Fence == nil {
		return nil
	}
	var out []Probe
	for _, p := range run.Status.Fence.Probes {
		probe := Probe{Cluster: p.Cluster, Total: p.Total, Failed: p.Failed, LongestGap: p.LongestGap}
		for _, text := range p.Gaps {
			probe.Gaps = append(probe.Gaps, ProbeGap{Text: text, During: during(run, spec, text)})
		}
		out = append(out, probe)
	}
	return out
}

// during returns the steps that were going on in a gap that is written as "TIME for DURATION: ERROR". Steps that change
// controllers are named alone where there are any, because only they can explain a silence.
func during(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec, text string) []string {
	from, to, ok := parseGap(text)
	if !ok || spec == nil {
		return nil
	}
	var swaps, others []string
	for _, st := range spec.Steps {
		r := record(run, st.ID)
		if r == nil || r.StartedAt.After(to) {
			continue
		}
		if r.FinishedAt != nil && r.FinishedAt.Add(stampPrecision).Before(from) {
			continue
		}
		if strings.HasPrefix(st.ID, "swap/") || strings.HasPrefix(st.ID, "stop/") {
			swaps = append(swaps, st.Summary)
			continue
		}
		others = append(others, st.Summary)
	}
	if len(swaps) > 0 {
		return swaps
	}
	return others
}

func parseGap(text string) (from, to time.Time, ok bool) {
	at, rest, found := strings.Cut(text, " for ")
	if !found {
		return from, to, false
	}
	length, _, _ := strings.Cut(rest, ": ")
	from, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return from, to, false
	}
	d, err := time.ParseDuration(length)
	return from, from.Add(d), err == nil
}

// ControllerGap is a time in which a component had no running controller, because the plan said StopThenStart.
type ControllerGap struct {
	Component string `json:"component"`
	// AtMost is from before its old controllers were asked to stop until after its new ones were seen ready.
	AtMost metav1.Duration `json:"atMost"`
	// Open tells that the new ones are not ready yet.
	Open bool `json:"open,omitempty"`
}

func controllerGaps(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec, now time.Time) []ControllerGap {
	var out []ControllerGap
	for _, c := range moves(spec) {
		stop, swap := stepOf(spec, c.Name, "stop"), stepOf(spec, c.Name, "swap")
		if c.Strategy != v1alpha1.StrategyStopThenStart || stop == nil {
			continue
		}
		began := record(run, stop.ID)
		if began == nil {
			continue
		}
		g := ControllerGap{Component: c.Name, Open: true}
		end := now
		if swap != nil {
			if r := record(run, swap.ID); r != nil && r.FinishedAt != nil {
				end, g.Open = r.FinishedAt.Add(stampPrecision), false
			}
		}
		g.AtMost.Duration = end.Sub(began.StartedAt.Time)
		out = append(out, g)
	}
	return out
}
