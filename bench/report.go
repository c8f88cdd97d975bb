// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is the outcome of all runs.
type report struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Results []result `json:"results"`
	// Command compares the time that the commands took, Working the time until every provider had a controller that leads.
	Command comparison `json:"command"`
	Working comparison `json:"working"`
	// Plans compare plans with plain lists.
	Plans []planResult `json:"plans,omitempty"`
}

// comparison is the medians of one number and their ratio, capstan to clusterctl.
type comparison struct {
	Clusterctl float64 `json:"clusterctl"`
	Capstan    float64 `json:"capstan"`
	Ratio      float64 `json:"ratio"`
}

func (r report) compare(n number) comparison {
	c := comparison{Clusterctl: median(r.of(toolClusterctl, n)), Capstan: median(r.of(toolCapstan, n))}
	if c.Clusterctl > 0 {
		c.Ratio = c.Capstan / c.Clusterctl
	}
	return c
}

func newReport(o options, results []result) report {
	r := report{From: o.from, To: o.to, Results: results}
	r.Command = r.compare(func(x result) float64 { return x.Seconds })
	r.Working = r.compare(func(x result) float64 { return x.Working })
	return r
}

// of picks one number of each run of a tool.
func (r report) of(t tool, pick number) []float64 {
	var out []float64
	for _, x := range r.Results {
		if x.Tool == t {
			out = append(out, pick(x))
		}
	}
	return out
}

// median returns the middle value, or the mean of the two in the middle; 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

func (r report) print(out io.Writer) error {
	if len(r.Results) > 0 {
		if err := r.printUpgrades(out); err != nil {
			return err
		}
	}
	return r.printPlans(out)
}

// printPlans shows plans beside plain lists of the same objects.
func (r report) printPlans(out io.Writer) error {
	if len(r.Plans) == 0 {
		return nil
	}
	if len(r.Results) > 0 {
		fmt.Fprintln(out)
	}
	first := r.Plans[0]
	fmt.Fprintf(out, "A plan to Cluster API %s beside a plain list of all CRDs and their objects: %d objects of %d kinds\n\n", r.To, first.Objects, first.Kinds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tPLAIN LIST\tPLAN\tRATIO\tMEMORY OF THE LIST\tMEMORY OF THE PLAN")
	var list, plan, ratio []float64
	var memory int64
	for _, p := range r.Plans {
		list, plan, ratio = append(list, p.PlainSeconds), append(plan, p.PlanSeconds), append(ratio, p.ratio())
		memory = max(memory, p.PlanMemory)
		fmt.Fprintf(w, "%d\t%.1f s\t%.1f s\t%.2f\t%s\t%s\n", p.Run, p.PlainSeconds, p.PlanSeconds, p.ratio(), mebibytes(p.PlainMemory), mebibytes(p.PlanMemory))
	}
	fmt.Fprintf(w, "median\t%.1f s\t%.1f s\t%.2f\t\t\n", median(list), median(plan), median(ratio))
	if err := w.Flush(); err != nil {
		return err
	}
	if first.Blocked {
		fmt.Fprintln(out, "The plan would be refused; it was made all the same.")
	}
	_, err := fmt.Fprintf(out, "\nA plan takes %.2f times as long as the list (wanted: at most 2) and at most %s of memory (wanted: under 512 MiB)\n", median(ratio), mebibytes(memory))
	return err
}

// printUpgrades shows the upgrades by both tools.
func (r report) printUpgrades(out io.Writer) error {
	fmt.Fprintf(out, "Cluster API %s to %s, each run in a fresh sandbox on this machine\n\n", r.From, r.To)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t\tCOMMAND\tALL LEAD\tNO RUNNING CONTROLLER\t\t\tNO LEADING CONTROLLER\t\tMACHINES")
	fmt.Fprintln(w, "RUN\tTOOL\tTOOK\tAFTER\tWORST PROVIDER\tSUM\tALL AT ONCE\tWORST PROVIDER\tSUM\tUNCHANGED")
	for _, x := range r.Results {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d of %d\n", x.Run, x.Tool, row(func(n number) float64 { return n(x) }), x.Unchanged, x.Machines)
	}
	for _, t := range []tool{toolClusterctl, toolCapstan} {
		fmt.Fprintf(w, "median\t%s\t%s\t\n", t, row(func(n number) float64 { return median(r.of(t, n)) }))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nBy provider, median seconds without a running (leading) controller:")
	for _, p := range r.providers() {
		stopped, leaderless := func(x result) float64 { return x.Stopped[p] }, func(x result) float64 { return x.Leaderless[p] }
		fmt.Fprintf(w, "  %s\tclusterctl %.1f (%.1f)\tcapstan %.1f (%.1f)\n", p, median(r.of(toolClusterctl, stopped)), median(r.of(toolClusterctl, leaderless)),
			median(r.of(toolCapstan, stopped)), median(r.of(toolCapstan, leaderless)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if blind := slices.Max(append(r.blind(), 0)); blind > 0 {
		fmt.Fprintf(out, "The API server did not answer the sampler for up to %.1f s of a run; that time is in no count.\n", blind)
	}
	_, err := fmt.Fprintf(out, "\nRatio of the medians, capstan to clusterctl: %.2f for the command, %.2f until all controllers lead\n",
		r.Command.Ratio, r.Working.Ratio)
	return err
}

// number picks one number of a run.
type number func(result) float64

// row formats the numbers of a run, or of the medians.
func row(value func(number) float64) string {
	var cells []string
	for _, n := range []number{
		func(x result) float64 { return x.Seconds },
		func(x result) float64 { return x.Working },
		func(x result) float64 { return worst(x.Stopped) },
		func(x result) float64 { return sum(x.Stopped) },
		func(x result) float64 { return x.AllDown },
		func(x result) float64 { return worst(x.Leaderless) },
		func(x result) float64 { return sum(x.Leaderless) },
	} {
		cells = append(cells, fmt.Sprintf("%.1f s", value(n)))
	}
	return strings.Join(cells, "\t")
}

func (r report) blind() []float64 {
	var out []float64
	for _, x := range r.Results {
		out = append(out, x.Blind)
	}
	return out
}

// providers lists every provider that was measured.
func (r report) providers() []string {
	names := map[string]bool{}
	for _, x := range r.Results {
		for p := range x.Stopped {
			names[p] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (r report) save(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("save the result: %w", err)
	}
	return nil
}
