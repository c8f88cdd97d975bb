// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// fleetChecks are about the workload clusters, before the platform under them moves.
func fleetChecks() []Check {
	return []Check{fleetAtRest(), clustersAnswer(), latentRollouts(), joinConfigurations()}
}

// FleetMoving is the ID of the check that the fleet is at rest.
const FleetMoving = "CAP-FLEET-MOVING"

func fleetAtRest() Check {
	return Check{
		ID: FleetMoving, Waivable: true, Needs: []world.Topic{world.TopicRollouts},
		Title: "The fleet is at rest while controllers are swapped",
		Doc: "A control plane, a MachineDeployment or a MachinePool that is replacing, adding or removing Machines depends on the very controllers that an upgrade " +
			"swaps: the rollout may break in the middle, and a change that the upgrade causes can't be told from one that was asked for. Paused clusters, clusters " +
			"that are being deleted, and pools that wait for a person to delete Machines only warn: nothing there moves by itself, or nothing is lost.",
		Fix:     "Wait until the rollouts are finished, by hand or with --wait; pause what must not go on.",
		Sources: []string{"https://github.com/aws/eks-anywhere/issues/2665", "https://github.com/harvester/harvester/issues/3298"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			if t.Still() {
				return nil
			}
			return Moving(w)
		},
	}
}

// Still tells that no component moves.
func (t *Target) Still() bool {
	return len(t.Components) > 0 && !slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool { return c.Action != v1alpha1.ActionNone })
}

// Moving returns a finding for each cluster in which Machines come, go, or are about to.
func Moving(w *world.World) []v1alpha1.Finding {
	fleet := w.Survey.FleetOf()
	var out []v1alpha1.Finding
	for i := range w.Clusters {
		c := &w.Clusters[i]
		m := movement{cluster: c}
		for _, r := range fleet.Rollouts {
			if r.Cluster == c.Key() {
				m.owner(r)
			}
		}
		m.machines(fleet.Machines)
		out = append(out, m.findings()...)
	}
	return out
}

// movement is what goes on in one cluster.
type movement struct {
	cluster *world.Cluster
	// moving and waiting are in words; waiting is what does not go on by itself.
	moving, waiting []string
	objects         []world.Ref
}

// owner takes an owner of Machines into account.
func (m *movement) owner(r world.Rollout) {
	if r.Deleting {
		m.moving = append(m.moving, r.Owner.String()+" is being deleted")
		m.objects = append(m.objects, r.Owner)
		return
	}
	scaling, replacing := resizing(r), replacement(r)
	parts := slices.Concat(scaling, replacing)
	switch {
	case len(parts) == 0 && r.Unseen:
		m.waiting = append(m.waiting, r.Owner.String()+" has a change that its controller has not looked at yet")
	case len(parts) == 0:
		return
	case r.Paused:
		m.waiting = append(m.waiting, fmt.Sprintf("%s is paused with %s", r.Owner, strings.Join(parts, ", ")))
	case r.OnDelete && len(scaling) == 0:
		m.waiting = append(m.waiting, fmt.Sprintf("%s waits for its old Machines to be deleted (OnDelete): %s", r.Owner, strings.Join(parts, ", ")))
	default:
		m.moving = append(m.moving, fmt.Sprintf("%s has %s", r.Owner, strings.Join(parts, ", ")))
	}
	m.objects = append(m.objects, r.Owner)
}

// resizing says in words that an owner has another number of Machines than it wants.
func resizing(r world.Rollout) []string {
	var out []string
	if r.Desired != nil && r.Current != nil && *r.Desired != *r.Current && !r.Elsewhere {
		out = append(out, fmt.Sprintf("%d of %s", *r.Current, phrase.Count(*r.Desired, "Machine")))
	}
	for _, d := range r.Doing {
		if d.Type != "RollingOut" {
			out = append(out, condition(d))
		}
	}
	return out
}

// replacement says in words that an owner has Machines that are not as it wants them.
func replacement(r world.Rollout) []string {
	var out []string
	if r.UpToDate != nil && r.Current != nil && *r.UpToDate < *r.Current {
		out = append(out, fmt.Sprintf("%d of %s up to date", *r.UpToDate, phrase.Count(*r.Current, "Machine")))
	}
	if n := len(r.ActiveSets); n > 1 {
		out = append(out, fmt.Sprintf("Machines in %d MachineSets (%s)", n, phrase.Some(r.ActiveSets)))
	}
	for _, d := range r.Doing {
		if d.Type == "RollingOut" {
			out = append(out, condition(d))
		}
	}
	return out
}

func condition(c world.Condition) string {
	if c.Message == "" {
		return "the condition " + c.Type
	}
	return fmt.Sprintf("the condition %s (%s)", c.Type, c.Message)
}

// machines takes the cluster's Machines into account that come or go.
func (m *movement) machines(all []world.MachineState) {
	var going, coming []string
	for _, s := range all {
		switch {
		case s.Cluster != m.cluster.Key():
		case s.Deleting:
			going = append(going, s.Name)
		case s.Phase == "Updating":
			m.moving = append(m.moving, "Machine "+s.Name+" is being updated in place")
		case s.Phase != "" && s.Phase != "Running" && s.Phase != "Failed" && s.Phase != "Unknown":
			coming = append(coming, s.Name)
		}
	}
	for _, part := range []struct {
		names []string
		word  string
	}{{going, "being deleted"}, {coming, "being provisioned"}} {
		if len(part.names) > 0 {
			m.moving = append(m.moving, fmt.Sprintf("%s %s (%s)", phrase.Count(len(part.names), "Machine"), part.word, phrase.Some(part.names)))
		}
	}
}

// findings sums the cluster up: one that blocks for what goes on, and one that warns for what waits.
func (m *movement) findings() []v1alpha1.Finding {
	c := m.cluster
	look := fmt.Sprintf("kubectl get machines -n %s -l cluster.x-k8s.io/cluster-name=%s", c.Namespace, c.Name)
	objects := append([]world.Ref{fleetCluster(c)}, m.objects...)
	var out []v1alpha1.Finding
	switch said := strings.Join(m.moving, "; "); {
	case said == "":
	case c.Deleting:
		out = append(out, warn(fmt.Sprintf("Cluster %s is being deleted, which goes on during the upgrade: %s", c.Key(), said),
			"wait until it is gone, or see what holds it: "+look, objects...))
	case c.Paused:
		out = append(out, warn(fmt.Sprintf("Cluster %s is paused in the middle of a change, and the new controllers go on with it once it is unpaused: %s", c.Key(), said),
			"look at what is left to do: "+look, objects...))
	default:
		out = append(out, block(fmt.Sprintf("Cluster %s is changing its Machines: %s", c.Key(), said),
			"wait until it is done: add --wait to this command, or watch it with "+look+" -w", objects...))
	}
	if len(m.waiting) > 0 && !c.Deleting {
		out = append(out, warn(fmt.Sprintf("Cluster %s has a change that does not go on by itself: %s", c.Key(), strings.Join(m.waiting, "; ")),
			"finish it first where that is possible: "+look, objects...))
	}
	return out
}

func fleetCluster(c *world.Cluster) world.Ref {
	return world.Ref{APIVersion: "cluster.x-k8s.io", Kind: "Cluster", Namespace: c.Namespace, Name: c.Name}
}

func clustersAnswer() Check {
	return Check{
		ID: "CAP-CLUSTER-UNREACHABLE", Waivable: true, Needs: []world.Topic{world.TopicHosts},
		Title: "The workload clusters answer",
		Doc: "A workload cluster that does not answer before the upgrade will not answer during it: the fence's proof counts its calls as failed. That is no reason " +
			"not to upgrade the platform, which does not need the cluster.",
		Fix: "Find out why the API server does not answer, or go on: it is only a warning.",
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, h := range w.Survey.FleetOf().Hosts {
				if h.Failed == "" {
					continue
				}
				ns, name, _ := strings.Cut(h.Cluster, "/")
				out = append(out, warn(fmt.Sprintf("Cluster %s does not answer: %s", h.Cluster, strings.TrimSuffix(h.Failed, ".")),
					fmt.Sprintf("kubectl describe cluster -n %s %s; the upgrade does not need it", ns, name),
					world.Ref{APIVersion: "cluster.x-k8s.io", Kind: "Cluster", Namespace: ns, Name: name}))
			}
			return out
		},
	}
}

func latentRollouts() Check {
	return Check{
		ID: "CAP-LATENT-ROLLOUT", Waivable: true, Scope: Both, Needs: []world.Topic{world.TopicTemplates},
		Title: "No MachineDeployment is about to replace its Machines",
		Doc: "A MachineDeployment whose template differs from that of its newest MachineSet replaces all its Machines the next time that its controller acts on it: " +
			"an autoscaler's plain change of replicas, days after an upgrade, is enough. Only fields that replace Machines count, as Cluster API compares them: " +
			"version, bootstrap, infrastructure, failure domain and what is new in a Machine's spec; labels, annotations and fields that change in place do not.",
		Fix:     "Make the template what the MachineSet has, or roll the pool at a time of your choice.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/12990"},
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			out := LatentPairs(w)
			for i := range out {
				out[i].Verdict = v1alpha1.VerdictWarn
			}
			return out
		},
	}
}

// LatentPairs returns a blocking finding for each MachineDeployment that would replace Machines.
func LatentPairs(w *world.World) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, p := range w.Survey.FleetOf().Pairs {
		if p.Refused != "" {
			out = append(out, block(fmt.Sprintf("%s of cluster %s can't be scaled: %s", p.Deployment, p.Cluster, p.Refused),
				"correct what refuses it: kubectl scale --dry-run=server --replicas=N -n "+p.Deployment.Namespace+" machinedeployment/"+p.Deployment.Name, p.Deployment))
		}
		if len(p.Differs) == 0 {
			continue
		}
		out = append(out, block(
			fmt.Sprintf("%s of cluster %s replaces %s at its next change: it differs from MachineSet %s in %s",
				p.Deployment, p.Cluster, phrase.Count(p.Machines, "Machine"), p.Newest.Name, strings.Join(p.Differs, ", ")),
			fmt.Sprintf("compare them: kubectl get -n %s machinedeployment/%s machineset/%s -o yaml; then take the change back, or let the pool roll at a time of your choice",
				p.Deployment.Namespace, p.Deployment.Name, p.Newest.Name),
			p.Deployment, p.Newest))
	}
	return out
}
