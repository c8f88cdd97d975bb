// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// preDrainPrefix is what the annotations of hooks before a drain begin with.
const preDrainPrefix = "pre-drain.delete.hook.machine.cluster.x-k8s.io/"

// machinesOf puts together the Machines that go back to an owner. live is the owner as read, nil if it is gone; reports are
// what the nodes say of themselves, nil where nobody was asked.
func (p *poolReader) machinesOf(
	ctx context.Context, cluster string, owner world.Ref, live *unstructured.Unstructured, hosts hostsAnswer, reports map[string]nodeReport,
) ([]world.RolledMachine, error) {
	all, err := p.allMachines(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var out []world.RolledMachine
	for _, u := range all {
		if !goesBackTo(u, owner) {
			continue
		}
		m := rolledMachine(u)
		infrastructure, err := p.infrastructureOf(ctx, u)
		if err != nil {
			return nil, err
		}
		if infrastructure != nil {
			m.Template = infrastructure.GetAnnotations()[clonedFromAnnotation]
			placed(&m, infrastructure, hosts)
		}
		if owner.Kind == "KubeadmControlPlane" {
			m.Unhealthy = unhealthyParts(u, live != nil && etcdOf(live) == world.EtcdExternal)
		}
		judgeNode(&m, u, reports)
		m.Blocker, m.BlockerReason, m.BlockedSince = blockerOf(u, infrastructure)
		out = append(out, m)
	}
	return out, nil
}

// machinesAnswer are the Machines of a namespace by cluster, each sorted by name.
type machinesAnswer struct {
	byCluster map[string][]*unstructured.Unstructured
	err       error
}

// allMachines returns all Machines of a cluster.
func (p *poolReader) allMachines(ctx context.Context, cluster string) ([]*unstructured.Unstructured, error) {
	namespace, name, _ := strings.Cut(cluster, "/")
	a := p.machines.get(namespace, func() machinesAnswer {
		all := p.listed(ctx, world.Ref{APIVersion: capiGroup + "/", Kind: "Machine", Namespace: namespace}, p.ofClusters(namespace))
		out := machinesAnswer{byCluster: map[string][]*unstructured.Unstructured{}, err: all.err}
		for _, u := range all.sorted() {
			of := u.GetLabels()[clusterLabel]
			out.byCluster[of] = append(out.byCluster[of], u)
		}
		return out
	})
	return a.byCluster[name], a.err
}

// goesBackTo tells whether an owner made a Machine, whichever API version each is read in.
func goesBackTo(u *unstructured.Unstructured, owner world.Ref) bool {
	o := ownerOfMachine(u)
	if o.Name != owner.Name {
		return false
	}
	// A control plane Machine that nobody controls tells its owner's name alone.
	return o.Kind == owner.Kind || o.Kind == "" && groupKind(owner).Group == controlPlaneGroup
}

// infrastructureOf reads the infrastructure of a Machine with the others of its kind; nil if it is not there.
func (p *poolReader) infrastructureOf(ctx context.Context, machine *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	at := func(field string) string { return stringAt(machine, "spec", "infrastructureRef", field) }
	apiVersion := at("apiVersion")
	if group := at("apiGroup"); group != "" {
		apiVersion = group + "/"
	}
	ref := world.Ref{APIVersion: apiVersion, Kind: at("kind"), Namespace: machine.GetNamespace(), Name: at("name")}
	if ref.Name == "" || ref.Kind == "" {
		return nil, nil
	}
	group, _, _ := strings.Cut(apiVersion, "/")
	a := p.infrastructure.get(group+"|"+ref.Kind+"|"+ref.Namespace, func() listAnswer { return p.listed(ctx, ref, p.ofClusters(ref.Namespace)) })
	if a.err != nil || a.byName[ref.Name] != nil {
		return a.byName[ref.Name], a.err
	}
	// One that somebody made by hand may lack the label.
	b := p.singles.get(singleKey(ref)+"|"+ref.Name, func() listAnswer { return p.single(ctx, ref) })
	return b.byName[ref.Name], b.err
}

// rolledMachine reads what a Machine itself says.
func rolledMachine(u *unstructured.Unstructured) world.RolledMachine {
	m := world.RolledMachine{
		Ref: world.RefOf(u), UID: string(u.GetUID()), ResourceVersion: u.GetResourceVersion(), Created: u.GetCreationTimestamp().Time,
		Version: stringAt(u, "spec", "version"), Phase: stringAt(u, "status", "phase"), Node: stringAt(u, "status", "nodeRef", "name"),
	}
	if at := u.GetDeletionTimestamp(); at != nil {
		m.Deleting = at.Time
	}
	for name := range u.GetAnnotations() {
		if hook, is := strings.CutPrefix(name, preDrainPrefix); is {
			m.Hooks = append(m.Hooks, hook)
		}
	}
	slices.Sort(m.Hooks)
	_, m.Remediated = u.GetAnnotations()[remediateAnnotation]
	m.Remediated = m.Remediated || slices.ContainsFunc(conditionsOf(u), func(c condition) bool { return c.kind == "OwnerRemediated" && c.status == "False" })
	if info, found, _ := unstructured.NestedMap(u.Object, "status", "nodeInfo"); found {
		m.Contents = contentsOf(info)
	}
	return m
}

// unhealthyParts are those of the five conditions that a control plane waits for which are not True. Where etcd is external
// nobody sets those about etcd; the others are set for each Machine, so that one which is missing is not known to be well.
func unhealthyParts(u *unstructured.Unstructured, externalEtcd bool) []string {
	var out []string
	conditions := conditionsOf(u)
	for _, kind := range []string{"APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy", "EtcdMemberHealthy"} {
		c, found := firstOf(conditions, kind)
		switch {
		case !found && externalEtcd && strings.HasPrefix(kind, "Etcd"), found && c.status == "True":
		case !found:
			out = append(out, kind+": nothing is reported yet")
		default:
			out = append(out, kind+": "+cmp.Or(c.message, c.reason, "it is "+cmp.Or(c.status, "not set")))
		}
	}
	return out
}

// firstOf returns the condition of a kind in the newest form that has it.
func firstOf(conditions []condition, kinds ...string) (condition, bool) {
	for _, kind := range kinds {
		for _, c := range conditions {
			if c.kind == kind {
				return c, true
			}
		}
	}
	return condition{}, false
}
