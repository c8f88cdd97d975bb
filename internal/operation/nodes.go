// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/world"
)

// NodeDraft is the answer to the question whether nodes could be rolled.
type NodeDraft struct {
	// Ask is the question.
	Ask world.AskNodes
	// Clusters are the clusters that are meant, as namespace/name.
	Clusters []string
	// Stages are what would move, in order.
	Stages []NodeStage
	// Findings are what the checks found.
	Findings []v1alpha1.Finding
	// Roll is how an image would be rolled, nil where none was named. Draft is what Start runs.
	Roll *Roll
}

// Roll is a plan to roll an image.
type Roll struct {
	*Draft

	// Image is what is rolled to.
	Image *v1alpha1.NodeImage
}

// NodeStage is what may move at the same time.
type NodeStage struct {
	// Name is "control planes" or "workers".
	Name  string
	Moves []NodeMove
}

// NodeMove is one owner of Machines that would replace them.
type NodeMove struct {
	// Cluster is namespace/name.
	Cluster string
	Object  world.Ref
	// From and To are Kubernetes versions, the same where Machines are only replaced.
	From, To string
	// Machines is how many it would replace.
	Machines int64
}

// DraftNodes checks whether nodes could be rolled. It writes nothing; changes are tried as dry runs.
func (s *Session) DraftNodes(ctx context.Context, ask world.AskNodes) (*NodeDraft, error) {
	w, err := s.observer.Observe(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	checks := check.For(check.Nodes)
	w.Survey = s.observer.Survey(ctx, world.Ask{Topics: check.Topics(checks), Nodes: &ask})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return draftNodes(ask, checks, w, check.NodeTarget{})
}

// draftNodes judges what was seen. It is pure.
func draftNodes(ask world.AskNodes, checks []check.Check, w *world.World, target check.NodeTarget) (*NodeDraft, error) {
	out := &NodeDraft{Ask: ask}
	if w.Survey.Nodes != nil {
		meant := chosen(w.Survey.Nodes, &ask)
		if len(meant) == 0 {
			return nil, noClusters(w, ask)
		}
		for _, c := range meant {
			out.Clusters = append(out.Clusters, c.Key())
		}
		out.Stages = stages(meant, ask)
	}
	target.Version, target.DNSTag, target.ControlPlanes, target.Clusters = ask.Version, ask.DNSTag, ask.ControlPlanes, out.Clusters
	out.Findings = check.Run(checks, w, &check.Target{Nodes: &target})
	return out, nil
}

func chosen(n *world.Nodes, ask *world.AskNodes) []*world.NodeCluster {
	var out []*world.NodeCluster
	for i := range n.Clusters {
		if c := &n.Clusters[i]; !c.Deleting && ask.Includes(c) {
			out = append(out, c)
		}
	}
	return out
}

// noClusters says that nothing was chosen, and from what: a typing error must not look like good news.
func noClusters(w *world.World, ask world.AskNodes) error {
	var of []string
	for _, o := range []struct{ flag, value string }{{"-n", ask.Namespace}, {"--cluster", ask.Name}, {"-l", ask.Selector}} {
		if o.value != "" {
			of = append(of, o.flag+" "+o.value)
		}
	}
	if len(of) == 0 {
		return problem.Usage("NoClusters", "", "The management cluster has no workload cluster").WithRemedy("kubectl get clusters -A")
	}
	return problem.Usage("NoClusters", strings.Join(of, " "), "None of the %d workload clusters is chosen", len(w.Survey.Nodes.Clusters)).
		WithRemedy("kubectl get clusters -A --show-labels")
}

// stages lists what would move: control planes first where they are to move, then workers.
func stages(clusters []*world.NodeCluster, ask world.AskNodes) []NodeStage {
	planes, workers := NodeStage{Name: "control planes"}, NodeStage{Name: "workers"}
	for _, c := range clusters {
		if cp := c.ControlPlane; cp != nil && ask.ControlPlanes {
			if m := (NodeMove{Cluster: c.Key(), Object: cp.Ref, From: cp.Version, To: cmp.Or(ask.Version, cp.Version), Machines: cp.Counts.Desired}); m.moves(ask, ask.DNSTag) {
				planes.Moves = append(planes.Moves, m)
			}
		}
		for _, p := range c.Pools {
			if m := (NodeMove{Cluster: c.Key(), Object: p.Ref, From: p.Version, To: cmp.Or(ask.Version, p.Version), Machines: p.Counts.Desired}); m.moves(ask, "") {
				workers.Moves = append(workers.Moves, m)
			}
		}
	}
	var out []NodeStage
	for _, st := range []NodeStage{planes, workers} {
		if len(st.Moves) > 0 {
			out = append(out, st)
		}
	}
	return out
}

// moves tells whether an owner's Machines would be replaced: a version that is there already asks for nothing.
func (m NodeMove) moves(ask world.AskNodes, tag string) bool {
	return ask.Version == "" || m.From != m.To || tag != ""
}

// AdmitNodes refuses what a roll would be refused for.
func AdmitNodes(d *NodeDraft, accepted []v1alpha1.AcceptedFinding) error {
	return Admit(&Draft{Spec: &v1alpha1.PlanSpec{Findings: d.Findings}}, StartOptions{Accepted: accepted})
}
