// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step/nodes"
)

// Rolled is one pool with what happened to it.
type Rolled struct {
	Cluster  string                   `json:"cluster"`
	Owner    v1alpha1.ObjectReference `json:"owner"`
	Template string                   `json:"template"`
	Strategy v1alpha1.RollStrategy    `json:"strategy"`
	Machines int64                    `json:"machines"`
	// Done tells that all its steps were seen done.
	Done bool `json:"done"`
}

func (d *Summary) rolled() []Rolled {
	var out []Rolled
	for i := range d.Plan.Pools {
		p := &d.Plan.Pools[i]
		out = append(out, Rolled{
			Cluster: p.Cluster, Owner: p.Owner, Template: p.NewTemplate.Name, Strategy: p.Strategy, Machines: p.Replicas, Done: d.stepsDone(nodes.Key(p.Owner)),
		})
	}
	return out
}

func (d *Summary) rollAssessment(s Style) string {
	to, all := d.Plan.Release.Name, d.rolled()
	if d.Run == nil {
		return s.good("Already at "+to+", nothing to do") + ": every Machine that was asked about is of it\n"
	}
	pools, machines := 0, int64(0)
	for _, p := range all {
		if p.Done {
			pools, machines = pools+1, machines+p.Machines
		}
	}
	length := span(took(d.Run, d.Now))
	if r := ResultOf(d.Run); r != ResultCompleted {
		return s.warn(string(r)+":") + fmt.Sprintf(" %d of %s rolled to %s, after %s\n", pools, phrase.Count(len(all), "pool"), to, length)
	}
	return s.good("Done:") + fmt.Sprintf(" %s of %s run %s after %s\n", phrase.Count(machines, "Machine"), phrase.Count(pools, "pool"), to, length)
}

func (d *Summary) pools() string {
	t := newTable("CLUSTER", "POOL", "MACHINES", "TEMPLATE", "STRATEGY", "STATE")
	for _, p := range d.rolled() {
		state := "done"
		if !p.Done {
			state = "not finished"
		}
		t.add(p.Cluster, p.Owner.Kind+" "+p.Owner.Name, fmt.Sprint(p.Machines), p.Template, string(p.Strategy), state)
	}
	return t.String()
}
